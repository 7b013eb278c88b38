// Reads a JPEG to its end without decoding pixels: is it complete, and what is the mean of each block?
//
//   segments ─► sizes, tables ─► every Huffman code ─► all blocks present, no data left?
//                                     └─► mean of each luma block = the image at an eighth of its size
//
// The answer is "regular" or "unknown". Regular means that libjpeg decodes the file without a warning and that its gray
// image at an eighth of the size has exactly these pixels. Damaged, unusual and rare files are left to libjpeg, so the
// verdict on a file is the same with and without this library.

#ifndef PENSTOCK_NATIVE_CHECK_H_
#define PENSTOCK_NATIVE_CHECK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "huffman.h"
#include "bytes.h"

namespace penstock {

constexpr int kMostComponents = 3;
constexpr int kMostSampling = 4;
constexpr int kMostSide = 65500;  // libjpeg's
constexpr int kTables = 4;

struct Component {
  int id, across, down, quantizer;  // sampling factors, table number
  int dc = 0, ac = 0;               // table numbers
};

// The contents of the segments before the coded data.
struct Header {
  int height = 0, width = 0, components = 0;
  Component component[kMostComponents] = {};
  int first_quantum[kTables] = {};  // quantizer of the mean (DC) per table; 0: no such table
  bool has_dc[kTables] = {}, has_ac[kTables] = {};
  int restart_interval = 0;
  bool jfif = false;
  const uint8_t* data = nullptr;  // start of the coded data
};

// Reads the body of a segment from its start; `ok_` becomes false when it ends too early.
class Body {
 public:
  explicit Body(Bytes bytes) : at_(bytes.data), left_(bytes.size) {}
  const uint8_t* Take(size_t count) {
    static const uint8_t kNothing[256] = {};
    if (count > left_) ok_ = false;
    if (!ok_) return kNothing;
    const uint8_t* taken = at_;
    at_ += count;
    left_ -= count;
    return taken;
  }
  int Byte() { return *Take(1); }
  int Word() { return BigEndian16(Take(2)); }
  bool More() const { return ok_ && left_ > 0; }
  bool Whole() const { return ok_ && left_ == 0; }  // read exactly to its end

 private:
  const uint8_t* at_;
  size_t left_;
  bool ok_ = true;
};

// Tables of 8 bits; those of 16 bits are for deeper images.
inline bool ReadQuantizers(Body body, Header* header) {
  while (body.More()) {
    const int number = body.Byte();
    if (number >= kTables) return false;
    header->first_quantum[number] = *body.Take(kBlock);
  }
  return body.Whole();
}

inline bool ReadCodes(Body body, Header* header, HuffmanScratch* scratch) {
  while (body.More()) {
    const int kind = body.Byte(), number = kind & 15;
    if (kind >> 4 > 1 || number >= kTables) return false;
    const bool is_dc = kind >> 4 == 0;
    uint8_t counts[17] = {}, symbols[256] = {};
    std::memcpy(counts + 1, body.Take(16), 16);
    size_t total = 0;
    for (const uint8_t count : counts) total += count;
    if (total > 256) return false;
    std::memcpy(symbols, body.Take(total), total);
    Code& code = is_dc ? scratch->dc[number] : scratch->ac[number];
    if (!code.Set(counts, symbols, is_dc)) return false;
    (is_dc ? header->has_dc : header->has_ac)[number] = true;
  }
  return body.Whole();
}

inline bool ReadFrame(Body body, Header* header) {
  if (header->components) return false;  // a second one
  const int bits = body.Byte();
  header->height = body.Word();
  header->width = body.Word();
  header->components = body.Byte();
  if (bits != 8 || (header->components != 1 && header->components != 3)) return false;
  for (int i = 0; i < header->components; ++i) {
    Component& each = header->component[i];
    each.id = body.Byte();
    const int sampling = body.Byte();
    each.across = sampling >> 4;
    each.down = sampling & 15;
    each.quantizer = body.Byte();
    for (int j = 0; j < i; ++j) {
      if (header->component[j].id == each.id) return false;
    }
    const auto usual = [](int factor) { return factor >= 1 && factor <= kMostSampling; };
    if (!usual(each.across) || !usual(each.down) || each.quantizer >= kTables) return false;
  }
  const auto possible = [](int side) { return side >= 1 && side <= kMostSide; };
  return body.Whole() && possible(header->height) && possible(header->width);
}

// One scan of all components in their order, all coefficients at once.
inline bool ReadScan(Body body, Header* header) {
  if (!header->components || body.Byte() != header->components) return false;
  for (int i = 0; i < header->components; ++i) {
    Component& each = header->component[i];
    if (body.Byte() != each.id) return false;
    const int tables = body.Byte();
    each.dc = tables >> 4;
    each.ac = tables & 15;
    if (each.dc >= kTables || each.ac >= kTables || !header->has_dc[each.dc] || !header->has_ac[each.ac]) return false;
    if (!header->first_quantum[each.quantizer]) return false;
  }
  const int first = body.Byte(), last = body.Byte(), approximation = body.Byte();
  return body.Whole() && first == 0 && last == kBlock - 1 && approximation == 0;
}

inline bool ReadRestarts(Body body, Header* header) {
  header->restart_interval = body.Word();
  return body.Whole();
}

// Adobe's segment may declare RGB or CMYK; "1" is YCbCr.
inline bool IsYCbCr(Bytes body) {
  return body.size >= 12 && std::memcmp(body.data, "Adobe", 5) == 0 && body.data[11] == 1;
}

inline bool ReadSegment(int marker, Bytes body, Header* header, HuffmanScratch* scratch) {
  switch (marker) {
    case 0xC0:
    case 0xC1: return ReadFrame(Body(body), header);
    case 0xC4: return ReadCodes(Body(body), header, scratch);
    case 0xDA: return ReadScan(Body(body), header);
    case 0xDB: return ReadQuantizers(Body(body), header);
    case 0xDD: return ReadRestarts(Body(body), header);
    case 0xEE: return IsYCbCr(body);
    case 0xE0: header->jfif |= body.size >= 14 && std::memcmp(body.data, "JFIF", 5) == 0; return true;
    default: return (marker > 0xE0 && marker <= 0xEF) || marker == 0xFE;  // metadata, comments
  }
}

// Whether the first component is luma at full resolution: then gray needs no other component.
inline bool StartsWithLuma(const Header& header) {
  const Component* component = header.component;
  if (header.components == 1) return true;
  const bool numbered = component[0].id == 1 && component[1].id == 2 && component[2].id == 3;
  if (!numbered && !header.jfif) return false;
  int blocks = 0;
  for (int i = 0; i < header.components; ++i) {
    if (component[0].across % component[i].across || component[0].down % component[i].down) return false;
    blocks += component[i].across * component[i].down;
  }
  return blocks <= kMostBlocks;
}

inline bool ReadHeader(Bytes bytes, Header* header, HuffmanScratch* scratch) {
  const uint8_t* data = bytes.data;
  if (bytes.size < 2 || data[0] != 0xFF || data[1] != 0xD8) return false;
  for (size_t at = 2; at + 4 <= bytes.size;) {
    if (data[at] != 0xFF) return false;
    const int marker = data[at + 1];
    if (marker == 0xFF) {  // a fill byte
      ++at;
      continue;
    }
    const size_t length = static_cast<size_t>(BigEndian16(data + at + 2));
    if (length < 2 || at + 2 + length > bytes.size) return false;
    if (!ReadSegment(marker, {data + at + 4, length - 2}, header, scratch)) return false;
    at += 2 + length;
    if (marker == 0xDA) {
      header->data = data + at;
      return StartsWithLuma(*header);
    }
  }
  return false;
}

inline int Pieces(int length, int piece) { return (length + piece - 1) / piece; }

// Luma blocks side by side in an MCU; an MCU of a single component is one block, whatever its sampling factors.
inline int AcrossMcu(const Header& header) { return header.components == 1 ? 1 : header.component[0].across; }

inline Layout LayoutOf(const Header& header) {
  Layout layout = {};
  for (int i = 0; i < header.components; ++i) {
    const Component& each = header.component[i];
    const int blocks = header.components == 1 ? 1 : each.across * each.down;
    for (int j = 0; j < blocks; ++j, ++layout.blocks) {
      layout.component[layout.blocks] = static_cast<uint8_t>(i);
      layout.dc[layout.blocks] = static_cast<uint8_t>(each.dc);
      layout.ac[layout.blocks] = static_cast<uint8_t>(each.ac);
      layout.dc_alone[layout.blocks] = true;
    }
  }
  layout.columns = Pieces(header.width, 8 * AcrossMcu(header));
  layout.last_column = layout.columns - 1;
  layout.restart_interval = header.restart_interval;
  return layout;
}

// The mean of a block as libjpeg's inverse transform to one pixel computes it; false if it is out of range by more than
// quantization can explain.
inline bool Mean(int coefficient, int quantum, uint8_t* gray) {
  const int mean = 128 + ((coefficient * quantum + 4) >> 3);
  if (mean < -128 || mean > 383) return false;
  *gray = static_cast<uint8_t>(std::min(std::max(mean, 0), 255));
  return true;
}

// Reads all blocks and writes the means of the luma blocks.
inline bool ReadMeans(const Header& header, int mcus, HuffmanReader* reader, uint8_t* gray) {
  const int across = AcrossMcu(header), down = header.components == 1 ? 1 : header.component[0].down;
  const int quantum = header.first_quantum[header.component[0].quantizer];
  const int columns = Pieces(header.width, 8), rows = Pieces(header.height, 8);
  int16_t blocks[kMostBlocks][kBlock];
  int16_t(*places[kMostBlocks])[kBlock];
  for (int i = 0; i < kMostBlocks; ++i) places[i] = &blocks[i];
  for (int top = 0; top < rows; top += down) {
    for (int mcu = 0; mcu < mcus; ++mcu) {
      if (!reader->Next(places)) return false;
      for (int i = 0; i < across * down; ++i) {
        const int row = top + i / across, column = mcu * across + i % across;
        if (row >= rows || column >= columns) continue;  // padding of the last MCUs
        if (!Mean(blocks[i][0], quantum, gray + static_cast<size_t>(row) * columns + column)) return false;
      }
    }
  }
  return true;
}

// Checks a file of the given height and width whose end marker is at the end of `bytes`. If it is regular, writes the
// image at an eighth of its size, sides rounded up, to `gray` and returns true.
inline bool IsRegular(Bytes bytes, int height, int width, HuffmanScratch* scratch, uint8_t* gray) {
  Header header;
  if (!ReadHeader(bytes, &header, scratch) || header.height != height || header.width != width) return false;
  const uint8_t* const end = bytes.data + bytes.size;
  const Layout layout = LayoutOf(header);
  HuffmanReader reader;
  reader.Start({header.data, static_cast<size_t>(end - header.data)}, layout, scratch);
  if (end - reader.end() != 2 || reader.end()[1] != 0xD9) return false;
  return ReadMeans(header, layout.columns, &reader, gray) && reader.AtEnd();
}

}  // namespace penstock

#endif  // PENSTOCK_NATIVE_CHECK_H_
