// Reads a JPEG to its end with little work per pixel: is it complete, and what is the mean of each block?
//
//   header ─► every Huffman code ─► all blocks present, no data left?
//                  └─► mean of each luma block = the gray image at an eighth of its size
//
// The answer is "regular" or "unknown". Regular means that libjpeg decodes the file without a warning to these pixels.
// Damaged, unusual and rare files are left to libjpeg, so the verdict on a file is the same without this library.

#ifndef PENSTOCK_NATIVE_CHECK_H_
#define PENSTOCK_NATIVE_CHECK_H_

#include <cstddef>
#include <cstdint>

#include "jpeg_reader.h"

namespace penstock {

// Checks a file of the given height and width whose end marker is at the end of `bytes`. If it is regular, writes the
// image at an eighth of its size, sides rounded up, to `gray` and returns true.
inline bool IsRegular(Bytes bytes, int height, int width, HuffmanScratch* scratch, uint8_t* gray) {
  JpegReader reader(scratch);
  if (!reader.Open(bytes) || !reader.supported() || reader.height() != height || reader.width() != width) return false;
  if (!reader.StartGray()) return false;
  const int columns = (width + 7) / 8, rows = (height + 7) / 8;
  for (int row = 0; row < rows; ++row) {
    uint8_t* place = gray + static_cast<size_t>(row) * columns;
    if (!reader.ReadRows(&place, 1)) return false;
  }
  return reader.AtEnd();
}

}  // namespace penstock

#endif  // PENSTOCK_NATIVE_CHECK_H_
