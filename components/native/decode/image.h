// Size and format of an image from its first bytes, and whether it is decoded here.
//
//   "\xff\xd8\xff"        JPEG ─► libjpeg reads its header
//   "P6 00640 00480 255\n" raw ─► width, height; RGB bytes follow
//   "\x89PNG…"             size only: TensorFlow decodes it
//
// Reads nothing beyond the given bytes. Sizes are unverified claims of the file.

#ifndef PENSTOCK_NATIVE_IMAGE_H_
#define PENSTOCK_NATIVE_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "bytes.h"
#include "jpeg_reader.h"

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

inline Shape JpegShape(Bytes bytes) {
  JpegReader reader(nullptr);
  if (!reader.Open(bytes)) return {};
  return {reader.height(), reader.width(), reader.supported() ? kJpeg : kOther};
}

inline Shape PngShape(Bytes bytes) {
  if (bytes.size < 24 || std::memcmp(bytes.data + 12, "IHDR", 4) != 0) return {};
  if (bytes.data[16] || bytes.data[17] || bytes.data[20] || bytes.data[21]) return {};  // above 65,535: left to TensorFlow
  const auto side = [&](int at) { return bytes.data[at] << 8 | bytes.data[at + 1]; };
  return {side(22), side(18), kOther};
}

inline bool IsJpeg(Bytes bytes) { return bytes.size >= 3 && std::memcmp(bytes.data, "\xff\xd8\xff", 3) == 0; }

inline Shape ReadShape(Bytes bytes) {
  if (IsJpeg(bytes)) return JpegShape(bytes);
  if (bytes.size >= 2 && std::memcmp(bytes.data, "P6", 2) == 0) return RawShape(bytes);
  if (bytes.size >= 8 && std::memcmp(bytes.data, "\x89PNG\r\n\x1a\n", 8) == 0) return PngShape(bytes);
  return {};
}

}  // namespace penstock

#endif  // PENSTOCK_NATIVE_IMAGE_H_
