// The header of a JPEG: its size, and where the coded data begins and ends.
//
// As in check.h the answer is "regular" or "I cannot tell": whatever has metadata that may turn the image, is odd, or
// is damaged is left to whoever can tell why.

#ifndef PENSTOCK_NATIVE_HEADER_H_
#define PENSTOCK_NATIVE_HEADER_H_

#include <cstddef>
#include <cstdint>

#include "image.h"

namespace penstock {

constexpr int kMostSegments = 64;

struct Outline {
  int32_t width = 0, height = 0;
  int32_t data = 0, end = 0;  // where the coded data begins; where the last end marker ends
};

// Segments that say nothing of which side is up, nor of a second image.
inline bool IsPlainSegment(int marker) {
  switch (marker) {
    case 0xC4:  // codes
    case 0xDA:  // scan
    case 0xDB:  // quantizers
    case 0xDD:  // restarts
    case 0xFE:  // comment
      return true;
    default: return marker >= 0xE0 && marker <= 0xEF && marker != 0xE1;
  }
}

inline bool ReadSize(Bytes body, Outline* outline) {
  if (outline->width || body.size < 6) return false;
  const uint8_t* at = body.data;
  outline->height = BigEndian16(at + 1);
  outline->width = BigEndian16(at + 3);
  return at[0] == 8 && (at[5] == 1 || at[5] == 3) && outline->height && outline->width;
}

inline bool FindEnd(Bytes bytes, Outline* outline) {
  for (size_t at = bytes.size; at >= static_cast<size_t>(outline->data) + 2; --at) {
    if (bytes.data[at - 2] == 0xFF && bytes.data[at - 1] == 0xD9) {
      outline->end = static_cast<int32_t>(at);
      return true;
    }
  }
  return false;
}

inline bool ReadOutline(Bytes bytes, Outline* outline) {
  const uint8_t* data = bytes.data;
  if (bytes.size < 2 || bytes.size > INT32_MAX || data[0] != 0xFF || data[1] != 0xD8) return false;
  size_t at = 2;
  for (int segment = 0; segment < kMostSegments && at + 4 <= bytes.size; ++segment) {
    if (data[at] != 0xFF) return false;
    const int marker = data[at + 1];
    const size_t length = static_cast<size_t>(BigEndian16(data + at + 2));
    if (length < 2 || at + 2 + length > bytes.size) return false;
    const Bytes body = {data + at + 4, length - 2};
    at += 2 + length;
    if (marker >= 0xC0 && marker <= 0xC2) {
      if (!ReadSize(body, outline)) return false;
    } else if (!IsPlainSegment(marker)) {
      return false;
    }
    if (marker == 0xDA) {
      outline->data = static_cast<int32_t>(at);
      return outline->width && FindEnd(bytes, outline);
    }
  }
  return false;
}

}  // namespace penstock

#endif  // PENSTOCK_NATIVE_HEADER_H_
