// A view of encoded bytes and a crop box, shared by both libraries.

#ifndef PENSTOCK_NATIVE_BYTES_H_
#define PENSTOCK_NATIVE_BYTES_H_

#include <cstddef>
#include <cstdint>

namespace penstock {

struct Bytes {
  const uint8_t* data;
  size_t size;
};

struct Box {
  int top, left, height, width;
};

}  // namespace penstock

#endif  // PENSTOCK_NATIVE_BYTES_H_
