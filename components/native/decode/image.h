// Size and format of an image from its first bytes, and whether it is decoded here.
//
//   "\xff\xd8\xff"        JPEG ─► segments ─► frame header: bits, height, width, components
//   "P6 00640 00480 255\n" raw ─► width, height; RGB bytes follow
//   "\x89PNG…"             size only: TensorFlow decodes it
//
// Allocates nothing and reads nothing beyond the given bytes. Sizes are unverified claims of the file.

#ifndef PENSTOCK_NATIVE_IMAGE_H_
#define PENSTOCK_NATIVE_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "bytes.h"

namespace penstock {

enum Format : int { kOther = 0, kJpeg = 1, kRaw = 2 };

struct Shape {
  int height = 0;
  int width = 0;
  Format format = kOther;
};

constexpr size_t kRawHeader = 19;  // "P6 ddddd ddddd 255\n"

inline bool Inside(const Box& box, int height, int width) {
  return box.top >= 0 && box.left >= 0 && box.height > 0 && box.width > 0 && box.top <= height - box.height &&
         box.left <= width - box.width;
}

// Reads five digits; -1 if there are others.
inline int FiveDigits(const uint8_t* at) {
  int number = 0;
  for (int i = 0; i < 5; ++i) {
    if (at[i] < '0' || at[i] > '9') return -1;
    number = number * 10 + (at[i] - '0');
  }
  return number;
}

inline Shape RawShape(Bytes bytes) {
  const uint8_t* data = bytes.data;
  if (bytes.size < kRawHeader || std::memcmp(data, "P6 ", 3) != 0 || data[8] != ' ' ||
      std::memcmp(data + 14, " 255\n", 5) != 0) {
    return {};
  }
  const int width = FiveDigits(data + 3), height = FiveDigits(data + 9);
  if (width <= 0 || height <= 0) return {};
  if (bytes.size != kRawHeader + static_cast<size_t>(width) * height * 3) return {};
  return {height, width, kRaw};
}

// Reads a frame header; other segments are skipped by their lengths.
inline Shape FrameShape(int marker, const uint8_t* body, int length) {
  if (length < 8) return {};
  const int bits = body[2], height = BigEndian16(body + 3), width = BigEndian16(body + 5), components = body[7];
  const bool huffman = marker == 0xC0 || marker == 0xC1 || marker == 0xC2;  // sequential or progressive
  const bool ours = huffman && bits == 8 && (components == 1 || components == 3) && height > 0 && width > 0;
  return {height, width, ours ? kJpeg : kOther};
}

inline Shape JpegShape(Bytes bytes) {
  const uint8_t* data = bytes.data;
  for (size_t at = 2; at + 4 <= bytes.size;) {
    if (data[at] != 0xFF || data[at + 1] == 0xFF) {  // stray bytes and fill bytes, which libjpeg skips too
      ++at;
      continue;
    }
    const int marker = data[at + 1];
    at += 2;
    if (marker <= 0x01 || (marker >= 0xD0 && marker <= 0xD7)) continue;  // these have no length
    if (marker == 0xD9 || marker == 0xDA) return {};                     // the end, or a scan without a frame
    const size_t length = static_cast<size_t>(BigEndian16(data + at));
    if (length < 2 || at + length > bytes.size) return {};
    if (marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC) {
      return FrameShape(marker, data + at, static_cast<int>(length));
    }
    at += length;
  }
  return {};
}

inline Shape PngShape(Bytes bytes) {
  if (bytes.size < 24 || std::memcmp(bytes.data + 12, "IHDR", 4) != 0) return {};
  if (bytes.data[16] || bytes.data[17] || bytes.data[20] || bytes.data[21]) return {};  // above 65,535: left to TensorFlow
  return {BigEndian16(bytes.data + 22), BigEndian16(bytes.data + 18), kOther};
}

inline Shape ReadShape(Bytes bytes) {
  if (bytes.size >= 3 && std::memcmp(bytes.data, "\xff\xd8\xff", 3) == 0) return JpegShape(bytes);
  if (bytes.size >= 2 && std::memcmp(bytes.data, "P6", 2) == 0) return RawShape(bytes);
  if (bytes.size >= 8 && std::memcmp(bytes.data, "\x89PNG\r\n\x1a\n", 8) == 0) return PngShape(bytes);
  return {};
}

}  // namespace penstock

#endif  // PENSTOCK_NATIVE_IMAGE_H_
