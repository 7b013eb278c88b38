// check.h and header.h as a plain library, for processes that know nothing of TensorFlow.

#include <memory>

#include "check.h"
#include "header.h"

#define PENSTOCK_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr size_t kKept = 4 << 20;  // bytes of scratch from image to image

}  // namespace

// Reads content[0, size), a JPEG of the given size up to the end of its end marker. Returns 1 when it is regular, and
// then its image at an eighth is in `gray`, which has room for it; otherwise 0.
PENSTOCK_EXPORT int penstock_check_jpeg(const uint8_t* content, size_t size, int height, int width, uint8_t* gray) {
  thread_local const auto scratch = std::make_unique<penstock::HuffmanScratch>();
  const bool regular = penstock::IsRegular({content, size}, height, width, scratch.get(), gray);
  if (scratch->data.size() > kKept) scratch->data = {};
  return regular;
}

// Reads the header of content[0, size). Returns 1 when it is regular, and then its width and height, and where its
// coded data begins and the last end marker ends, are in `outline`; otherwise 0.
PENSTOCK_EXPORT int penstock_read_outline(const uint8_t* content, size_t size, int32_t outline[4]) {
  penstock::Outline found;
  if (!penstock::ReadOutline({content, size}, &found)) return 0;
  outline[0] = found.width;
  outline[1] = found.height;
  outline[2] = found.data;
  outline[3] = found.end;
  return 1;
}
