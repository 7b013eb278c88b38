// check.h as a plain library, for processes that know nothing of TensorFlow.

#include <memory>

#include "check.h"

namespace {

constexpr size_t kKept = 4 << 20;  // bytes of scratch from picture to picture

}  // namespace

// Reads content[0, size), a JPEG of the given size up to the end of its end marker. Returns 1 when it is regular, and
// then its picture at an eighth is in `gray`, which has room for it; otherwise 0.
extern "C" __attribute__((visibility("default"))) int penstock_check_jpeg(const uint8_t* content, size_t size,
                                                                           int height, int width, uint8_t* gray) {
  thread_local const auto scratch = std::make_unique<penstock::HuffmanScratch>();
  const bool regular = penstock::IsRegular({content, size}, height, width, scratch.get(), gray);
  if (scratch->data.size() > kKept) scratch->data = {};
  return regular;
}
