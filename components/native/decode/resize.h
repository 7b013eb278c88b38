// Resizes rows of RGB bytes with integer arithmetic: the same result on every machine.
//
//   source rows ──► blend 1 to n rows ─► one row of 16-bit numbers, 7 fraction bits ─► blend horizontally ─► bytes
//                   (contiguous, no shuffles)                                         (mirrored or not)
//
// Vertical first: rows are blended in place, and an image that shrinks has fewer rows to blend horizontally.
// A filter is a table of taps: for each output pixel the first source pixel and one weight per source pixel.
// Weights have 14 fraction bits and sum to one, so a uniform area stays uniform.
// Positions and weights are those of tf.image.resize(method="bilinear"), without and with antialias; the result is
// rounded to nearest, halves to even, as tf.round does.

#ifndef PENSTOCK_NATIVE_RESIZE_H_
#define PENSTOCK_NATIVE_RESIZE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#if defined(__x86_64__) && defined(__GNUC__)
#define PENSTOCK_AVX2 1
#include <immintrin.h>
#endif

namespace penstock {

constexpr int kOne = 1 << 14;          // a weight of one
constexpr int kRowBits = 7;            // fraction of a blended row: 255 << 7 fits a signed 16-bit number
constexpr int kSumBits = 14 + kRowBits;  // fraction of a horizontal sum

struct Taps {
  int count = 0;  // per pixel; even and equal for all pixels, unused taps have weight zero
  std::vector<int> starts;
  std::vector<int16_t> weights;  // `count` per pixel
};

// One axis of a resize: `out` pixels from `in`; the centre of pixel x is at origin + (x + 0.5) * scale.
struct Axis {
  int in, out;
  float origin, scale;
};

// TensorFlow divides in this order, and in single precision.
inline Axis WholeAxis(int in, int out, bool antialias) {
  const float scale = antialias ? 1.0f / (static_cast<float>(out) / static_cast<float>(in))
                                : static_cast<float>(in) / static_cast<float>(out);
  return {in, out, 0.0f, scale};
}

// Rounds weights to integers that sum to one: the rounding error of a weight is carried over to the next.
inline void Quantize(const float* weights, int count, int16_t* out) {
  float sum = 0;
  for (int i = 0; i < count; ++i) sum += weights[i];
  const float factor = kOne / sum;
  float so_far = 0;
  int given = 0;
  for (int i = 0; i < count; ++i) {
    so_far += weights[i];
    const int upto = i + 1 < count ? static_cast<int>(so_far * factor + 0.5f) : kOne;
    out[i] = static_cast<int16_t>(upto - given);
    given = upto;
  }
}

inline void BilinearTaps(const Axis& axis, Taps* taps) {
  taps->count = 2;
  taps->starts.resize(axis.out);
  taps->weights.resize(2 * axis.out);
  for (int x = 0; x < axis.out; ++x) {
    const float at = (static_cast<float>(x) + 0.5f) * axis.scale - 0.5f;
    const float below = std::floor(at);
    const int low = std::min(std::max(static_cast<int>(below), 0), axis.in - 1);
    const int high = std::min(static_cast<int>(std::ceil(at)), axis.in - 1);
    const int second = high > low ? static_cast<int>(std::lrint((at - below) * kOne)) : 0;
    taps->starts[x] = low;
    taps->weights[2 * x] = static_cast<int16_t>(kOne - second);
    taps->weights[2 * x + 1] = static_cast<int16_t>(second);
  }
}

// A triangle as wide as an output pixel in the source, or as one source pixel if the image grows.
inline void TriangleTaps(const Axis& axis, Taps* taps) {
  const float radius = std::max(axis.scale, 1.0f), slope = 1.0f / radius;
  const int most = (std::min(2 * static_cast<int>(std::ceil(radius)) + 1, axis.in) + 1) / 2 * 2;
  std::vector<float> heights(static_cast<size_t>(most));
  taps->count = most;
  taps->starts.resize(axis.out);
  taps->weights.assign(static_cast<size_t>(most) * axis.out, 0);
  for (int x = 0; x < axis.out; ++x) {
    const float at = axis.origin + (static_cast<float>(x) + 0.5f) * axis.scale;
    int first = std::clamp(static_cast<int>(std::ceil(at - radius - 0.5f)), 0, axis.in - 1);
    const int last = std::clamp(static_cast<int>(std::floor(at + radius - 0.5f)), 0, axis.in - 1);
    int count = 0;
    for (int i = first; i <= last && count < most; ++i) {
      const float height = std::max(0.0f, 1.0f - std::abs(static_cast<float>(i) + 0.5f - at) * slope);
      if (count == 0 && height == 0.0f && i < last) {
        first = i + 1;  // a source pixel exactly at the foot of the triangle
      } else {
        heights[count++] = height;
      }
    }
    if (count == 1) heights[0] = 1.0f;
    taps->starts[x] = first;
    Quantize(heights.data(), count, &taps->weights[static_cast<size_t>(most) * x]);
  }
}

// Removes taps that no pixel uses: an image that grows uses two of four.
inline void Trim(Taps* taps) {
  const int old = taps->count;
  int used = 2;
  for (size_t x = 0; x < taps->starts.size(); ++x) {
    int last = old - 1;
    while (last >= used && !taps->weights[old * x + last]) --last;
    used = std::max(used, last / 2 * 2 + 2);
  }
  if (used == old) return;
  for (size_t x = 0; x < taps->starts.size(); ++x) {
    std::memmove(&taps->weights[used * x], &taps->weights[old * x], used * sizeof(int16_t));
  }
  taps->count = used;
}

inline void FillTaps(const Axis& axis, bool antialias, Taps* taps) {
  if (!antialias) return BilinearTaps(axis, taps);
  TriangleTaps(axis, taps);
  Trim(taps);
}

// The horizontal taps in the order of use: two output pixels by two taps, each pair of weights four times, once per
// channel. Mirroring only changes this order.
struct Across {
  int pairs = 0;                 // of taps per pixel
  int width = 0;                 // of the output
  std::vector<int> offsets;      // per pixel, of its first number in a blended row; 4 pixels at a time
  std::vector<int16_t> weights;  // [pixel / 2][pair][pixel % 2][channel][tap % 2]
};

inline void FillAcross(const Taps& taps, bool mirrored, Across* across) {
  const int width = static_cast<int>(taps.starts.size());
  const int padded = (width + 3) / 4 * 4;
  const int pairs = taps.count / 2;
  across->pairs = pairs;
  across->width = width;
  across->offsets.assign(padded, 0);
  across->weights.assign(static_cast<size_t>(padded) * pairs * 8, 0);
  for (int x = 0; x < width; ++x) {
    const int from = mirrored ? width - 1 - x : x;
    across->offsets[x] = 3 * taps.starts[from];
    for (int tap = 0; tap < taps.count; ++tap) {
      const int16_t weight = taps.weights[static_cast<size_t>(taps.count) * from + tap];
      int16_t* to = &across->weights[(static_cast<size_t>(x / 2) * pairs + tap / 2) * 16 + x % 2 * 8 + tap % 2];
      for (int channel = 0; channel < 4; ++channel) to[2 * channel] = weight;
    }
  }
}

// Extra numbers after a blended row: taps of zero weight and whole vectors read there.
inline size_t PaddingAcross(const Taps& taps) { return 3 * static_cast<size_t>(taps.count + 1) + 16; }

// ---- plain C++ for every machine; the AVX2 code below gives equal results

inline void MixRowsPlain(const uint8_t* const* rows, const int16_t* weights, int count, int n, int16_t* out) {
  for (int i = 0; i < n; ++i) {
    int sum = 1 << (14 - kRowBits - 1);
    for (int tap = 0; tap < count; ++tap) sum += rows[tap][i] * weights[tap];
    out[i] = static_cast<int16_t>(sum >> (14 - kRowBits));
  }
}

inline int RoundSum(int sum) {
  return (sum + (1 << (kSumBits - 1)) - 1 + ((sum >> kSumBits) & 1)) >> kSumBits;
}

inline void MixAcrossPlain(const int16_t* row, const Across& across, int begin, uint8_t* out) {
  for (int x = begin; x < across.width; ++x) {
    const int16_t* from = row + across.offsets[x];
    const int16_t* weights = &across.weights[static_cast<size_t>(x / 2) * across.pairs * 16 + x % 2 * 8];
    for (int channel = 0; channel < 3; ++channel) {
      int sum = 0;
      for (int pair = 0; pair < across.pairs; ++pair) {
        sum += from[6 * pair + channel] * weights[16 * pair] + from[6 * pair + 3 + channel] * weights[16 * pair + 1];
      }
      out[3 * x + channel] = static_cast<uint8_t>(RoundSum(sum));
    }
  }
}

// ---- AVX2, selected at run time

#ifdef PENSTOCK_AVX2
#define PENSTOCK_FOR_AVX2 __attribute__((target("avx2")))

// Two rows at a time: their bytes interleaved, times the two weights, summed.
PENSTOCK_FOR_AVX2 inline void MixRowsAt(const uint8_t* const* rows, const int16_t* weights, int pairs, int i,
                                        int16_t* out) {
  const __m256i half = _mm256_set1_epi32(1 << (14 - kRowBits - 1));
  __m256i low = half, high = half;
  for (int pair = 0; pair < pairs; ++pair) {
    const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[2 * pair] + i));
    const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[2 * pair + 1] + i));
    const __m256i both = _mm256_set1_epi32(weights[2 * pair + 1] * 65536 + weights[2 * pair]);
    low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b)), both));
    high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm_unpackhi_epi8(a, b)), both));
  }
  const __m256i mixed =
      _mm256_packs_epi32(_mm256_srai_epi32(low, 14 - kRowBits), _mm256_srai_epi32(high, 14 - kRowBits));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm256_permute4x64_epi64(mixed, 0xD8));
}

// The last vector overlaps the one before it instead of reading beyond the row.
PENSTOCK_FOR_AVX2 inline void MixRowsAvx2(const uint8_t* const* rows, const int16_t* weights, int pairs, int n,
                                          int16_t* out) {
  for (int i = 0; i + 16 <= n; i += 16) MixRowsAt(rows, weights, pairs, i, out);
  MixRowsAt(rows, weights, pairs, n - 16, out);
}

// Two output pixels: r g b of two source pixels each, times their weights, summed.
PENSTOCK_FOR_AVX2 inline __m256i SumAcross(const int16_t* first, const int16_t* second, const int16_t* weights,
                                           int pairs) {
  const __m256i channels = _mm256_setr_epi8(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, -1, -1, -1, -1,  //
                                            0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, -1, -1, -1, -1);
  __m256i sum = _mm256_setzero_si256();
  for (int pair = 0; pair < pairs; ++pair) {
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(first + 6 * pair));
    const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(second + 6 * pair));
    const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
    const __m256i factors = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights + 16 * pair));
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_shuffle_epi8(both, channels), factors));
  }
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(sum, kSumBits), _mm256_set1_epi32(1));
  const __m256i half = _mm256_set1_epi32((1 << (kSumBits - 1)) - 1);
  return _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(sum, half), odd), kSumBits);
}

PENSTOCK_FOR_AVX2 inline int MixAcrossAvx2(const int16_t* row, const Across& across, uint8_t* out) {
  const int pairs = across.pairs;
  const int* offsets = across.offsets.data();
  const int16_t* weights = across.weights.data();
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m128i dense = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
  int x = 0;
  for (; x + 4 <= across.width; x += 4, weights += 32 * pairs) {
    const __m256i early = SumAcross(row + offsets[x], row + offsets[x + 1], weights, pairs);
    const __m256i late = SumAcross(row + offsets[x + 2], row + offsets[x + 3], weights + 16 * pairs, pairs);
    const __m256i words = _mm256_packs_epi32(early, late);  // pixels 0 and 2, then 1 and 3
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(words, words), order);
    const __m128i pixels = _mm_shuffle_epi8(_mm256_castsi256_si128(bytes), dense);
    const int last = _mm_extract_epi32(pixels, 2);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out + 3 * x), pixels);
    std::memcpy(out + 3 * x + 8, &last, 4);
  }
  return x;
}

inline bool HasAvx2() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}
#endif  // PENSTOCK_AVX2

// ---- selection of the implementation

// Blends `n` bytes of two or more adjacent rows into 16-bit numbers.
inline void MixRows(const uint8_t* const* rows, const int16_t* weights, int count, int n, bool vectors, int16_t* out) {
#ifdef PENSTOCK_AVX2
  if (vectors && n >= 16) return MixRowsAvx2(rows, weights, count / 2, n, out);
#endif
  static_cast<void>(vectors);
  MixRowsPlain(rows, weights, count, n, out);
}

// Blends a row of 16-bit numbers horizontally into a row of the output, exactly across.width * 3 bytes.
inline void MixAcross(const int16_t* row, const Across& across, bool vectors, uint8_t* out) {
  int done = 0;
#ifdef PENSTOCK_AVX2
  if (vectors) done = MixAcrossAvx2(row, across, out);
#endif
  static_cast<void>(vectors);
  MixAcrossPlain(row, across, done, out);
}

inline bool BestVectors() {
#ifdef PENSTOCK_AVX2
  return HasAvx2();
#else
  return false;
#endif
}

}  // namespace penstock

#endif  // PENSTOCK_NATIVE_RESIZE_H_
