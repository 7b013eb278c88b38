// check.h as a C library, for processes without TensorFlow.

#include <memory>

#include "check.h"

#define PENSTOCK_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr size_t kKept = 4 << 20;  // bytes of scratch memory kept between images

}  // namespace

// Reads content[0, size), a JPEG of the given height and width, up to the end of its end marker. Returns 1 if it is
// regular and writes the image at an eighth of its size to `gray`, which must be large enough; otherwise returns 0.
PENSTOCK_EXPORT int penstock_check_jpeg(const uint8_t* content, size_t size, int height, int width, uint8_t* gray) {
  thread_local const auto scratch = std::make_unique<penstock::HuffmanScratch>();
  const bool regular = penstock::IsRegular({content, size}, height, width, scratch.get(), gray);
  if (scratch->data.size() > kKept) scratch->data = {};
  return regular;
}
