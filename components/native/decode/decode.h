// Decodes a crop box of one image, resizes it, optionally mirrors it, and writes it to its place in the batch.
//
//   JPEG ─► rows of the box, a few at a time, in a ring buffer ─┐
//   raw  ─► rows in place ──────────────────────────────────────┴─► resize ─► out: height x width x 3 bytes
//
// Rows are used while they are in the CPU cache, so the box is never in memory as a whole. This file does not depend on
// TensorFlow: the fuzzer is built from it alone.

#ifndef PENSTOCK_NATIVE_DECODE_H_
#define PENSTOCK_NATIVE_DECODE_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "image.h"
#include "jpeg_reader.h"
#include "resize.h"

namespace penstock {

struct Options {
  int height, width;     // of the output
  bool antialias;        // smooth images that shrink
  bool shrink_in_dct;    // let libjpeg decode at 1/2, 1/4 or 1/8 where antialias averages that much
  int64_t max_pixels;    // per image: a header may claim any size
  bool vectors = BestVectors();
  bool own_huffman = true;
};

constexpr size_t kKept = 4 << 20;  // bytes

// Buffers reused from image to image; one per thread.
struct Scratch {
  Taps down, sideways;
  Across across;
  std::vector<int16_t> mixed;
  std::vector<uint8_t> ring;
  std::vector<const uint8_t*> rows;
  HuffmanScratch huffman;

  // Frees buffers that only a large image needed.
  void Relax() {
    if (ring.size() > kKept) ring = {};
    if (huffman.data.size() > kKept) huffman.data = {};
  }
};

// Maximum side of the output: the maximum of a JPEG.
constexpr int kMostPixels = 65535;

constexpr int kReadAhead = 16;  // rows: as many as libjpeg decodes at once from 4:2:0

// Rows of an uncompressed image in memory.
class RawRows {
 public:
  RawRows(const uint8_t* first, size_t stride) : first_(first), stride_(stride) {}
  bool Prepare(int) { return true; }
  const uint8_t* Row(int y) const { return first_ + stride_ * static_cast<size_t>(y); }

 private:
  const uint8_t* first_;
  size_t stride_;
};

// Rows of a JPEG, read on demand from top to bottom; never back by more than the taps of one output row.
class JpegRows {
 public:
  JpegRows(JpegReader* reader, int rows, int taps, std::vector<uint8_t>* ring)
      : reader_(reader), rows_(rows), held_(taps + kReadAhead), stride_(static_cast<size_t>(reader->stride())) {
    if (ring->size() < held_ * stride_) ring->resize(held_ * stride_);
    ring_ = ring->data();
  }

  // Reads all rows before `end`.
  bool Prepare(int end) {
    if (end <= next_) return true;
    const int upto = std::min(rows_, end + kReadAhead);
    while (next_ < upto) {
      uint8_t* places[kReadAhead];
      const int count = std::min(upto - next_, kReadAhead);
      for (int i = 0; i < count; ++i) places[i] = Place(next_ + i);
      if (!reader_->ReadRows(places, count)) return false;
      next_ += count;
    }
    return true;
  }

  const uint8_t* Row(int y) const { return Place(y) + 3 * reader_->margin(); }

 private:
  uint8_t* Place(int y) const { return ring_ + static_cast<size_t>(y) % held_ * stride_; }

  JpegReader* reader_;
  int rows_;
  size_t held_, stride_;
  uint8_t* ring_;
  int next_ = 0;
};

// Writes the output row by row; false if a row could not be read.
template <typename Rows>
bool Resize(Rows* rows, int in_height, int in_width, const Options& options, Scratch* scratch, uint8_t* out) {
  const Taps& down = scratch->down;
  scratch->rows.resize(static_cast<size_t>(down.count));
  const size_t numbers = 3 * static_cast<size_t>(in_width) + PaddingAcross(scratch->sideways);
  if (scratch->mixed.size() < numbers) scratch->mixed.resize(numbers);
  for (int y = 0; y < options.height; ++y) {
    const int start = down.starts[y];
    if (!rows->Prepare(std::min(start + down.count, in_height))) return false;
    for (int tap = 0; tap < down.count; ++tap) scratch->rows[tap] = rows->Row(std::min(start + tap, in_height - 1));
    MixRows(scratch->rows.data(), &down.weights[static_cast<size_t>(down.count) * y], down.count, 3 * in_width,
            options.vectors, scratch->mixed.data());
    uint8_t* to = out + static_cast<size_t>(y) * options.width * 3;
    MixAcross(scratch->mixed.data(), scratch->across, options.vectors, to);
  }
  return true;
}

inline void Prepare(const Axis& down, const Axis& sideways, bool flip, const Options& options, Scratch* scratch) {
  FillTaps(down, options.antialias, &scratch->down);
  FillTaps(sideways, options.antialias, &scratch->sideways);
  FillAcross(scratch->sideways, flip, &scratch->across);
}

// The largest of 8, 4, 2 and 1 by which libjpeg may shrink the image so that the box stays at least 1.5 times the
// output. Closer to the output size, libjpeg's averaging becomes visible (mean difference 4 of 255 at 1.0 times, 1.4 at
// 1.5, 1.0 at 2, on a detailed photo).
inline int Shrinkage(const Box& box, const Options& options) {
  if (!options.antialias || !options.shrink_in_dct) return 1;
  const auto enough = [](int length, int shrink, int out) { return 2 * int64_t{length} >= 3 * int64_t{shrink} * out; };
  for (int shrink : {8, 4, 2}) {
    if (enough(box.height, shrink, options.height) && enough(box.width, shrink, options.width)) return shrink;
  }
  return 1;
}

// One axis of a box in a shrunk image: its borders may fall between pixels.
struct Window {
  int first, count;
  Axis axis;
};

inline Window Shrunk(int start, int length, int shrink, int most, int out) {
  const int first = start / shrink;
  const int end = std::min((start + length + shrink - 1) / shrink, most);
  const float scale = static_cast<float>(length) / static_cast<float>(out * shrink);
  const float origin = static_cast<float>(start % shrink) / static_cast<float>(shrink);
  return {first, end - first, {end - first, out, origin, scale}};
}

inline std::string Describe(const Box& box) {
  return "box of " + std::to_string(box.height) + " x " + std::to_string(box.width) + " at (" +
         std::to_string(box.top) + ", " + std::to_string(box.left) + ")";
}

// Checks the header's size and the box; the message is empty if both are valid.
inline std::string Objection(int height, int width, const Box& box, const Options& options) {
  if (static_cast<int64_t>(height) * width > options.max_pixels) {
    return std::to_string(height) + " x " + std::to_string(width) + " pixels, expected at most " +
           std::to_string(options.max_pixels);
  }
  if (Inside(box, height, width)) return "";
  return Describe(box) + " in an image of " + std::to_string(height) + " x " + std::to_string(width) +
         ", expected one inside it";
}

// Decodes with `reader`, which is not open yet.
inline std::string DecodeBy(JpegReader* reader, Bytes bytes, const Box& box, bool flip, const Options& options,
                            Scratch* scratch, uint8_t* out) {
  if (!reader->Open(bytes)) return reader->problem();
  if (!reader->supported()) return "expected a Huffman-coded JPEG with 1 or 3 components of 8 bits";
  std::string objection = Objection(reader->height(), reader->width(), box, options);
  if (!objection.empty()) return objection;
  const int shrink = Shrinkage(box, options);
  const auto window = [&](int start, int length, int whole, int out_length) {
    return shrink == 1 ? Window{start, length, WholeAxis(length, out_length, options.antialias)}
                       : Shrunk(start, length, shrink, (whole + shrink - 1) / shrink, out_length);
  };
  const Window down = window(box.top, box.height, reader->height(), options.height);
  const Window sideways = window(box.left, box.width, reader->width(), options.width);
  if (!reader->Start({down.first, sideways.first, down.count, sideways.count}, shrink)) return reader->problem();
  Prepare(down.axis, sideways.axis, flip, options, scratch);
  JpegRows rows(reader, down.count, scratch->down.count, &scratch->ring);
  return Resize(&rows, down.count, sideways.count, options, scratch, out) ? "" : reader->problem();
}

inline std::string DecodeJpeg(Bytes bytes, const Box& box, bool flip, const Options& options, Scratch* scratch,
                              uint8_t* out) {
  {
    JpegReader reader(options.own_huffman ? &scratch->huffman : nullptr);
    std::string problem = DecodeBy(&reader, bytes, box, flip, options, scratch, out);
    if (problem.empty() || !reader.irregular()) return problem;
  }
  JpegReader reader(nullptr);
  return DecodeBy(&reader, bytes, box, flip, options, scratch, out);
}

inline std::string DecodeRaw(Bytes bytes, const Shape& shape, const Box& box, bool flip, const Options& options,
                             Scratch* scratch, uint8_t* out) {
  std::string objection = Objection(shape.height, shape.width, box, options);
  if (!objection.empty()) return objection;
  const size_t stride = 3 * static_cast<size_t>(shape.width);
  Prepare(WholeAxis(box.height, options.height, options.antialias),
          WholeAxis(box.width, options.width, options.antialias), flip, options, scratch);
  RawRows rows(bytes.data + kRawHeader + stride * box.top + 3 * static_cast<size_t>(box.left), stride);
  Resize(&rows, box.height, box.width, options, scratch, out);
  return "";
}

// Writes options.height x options.width x 3 bytes and returns "", or returns the reason for failing; `out` is then
// undefined.
inline std::string DecodeCropResize(Bytes bytes, const Box& box, bool flip, const Options& options, Scratch* scratch,
                                    uint8_t* out) {
  if (IsJpeg(bytes)) return DecodeJpeg(bytes, box, flip, options, scratch, out);
  const Shape shape = ReadShape(bytes);
  if (shape.format == kRaw) return DecodeRaw(bytes, shape, box, flip, options, scratch, out);
  return "expected a JPEG with 1 or 3 components of 8 bits, or a raw image";
}

}  // namespace penstock

#endif  // PENSTOCK_NATIVE_DECODE_H_
