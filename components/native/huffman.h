// Reads the Huffman-coded data of a sequential JPEG faster than libjpeg, which spends two thirds of a decode on it.
//
//   coded bytes ─► remove byte stuffing, split at restart markers ─► bits ─► table: run, value and length in one lookup
//                                                                      └─► blocks to skip: several symbols per lookup
//
// Tables are indexed by the next kLookupBits bits. Most coefficients are small: code and value fit into one lookup. Blocks
// outside the crop box are skipped; only their DC values are needed, because later DC values are coded as differences.
//
// The reader handles regular files and gives up on all others: libjpeg then reads the image from the start and decides
// whether it is damaged or only unusual.

#ifndef PENSTOCK_NATIVE_HUFFMAN_H_
#define PENSTOCK_NATIVE_HUFFMAN_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "bytes.h"
#include "huffman_code.h"

namespace penstock {

constexpr int kMostBlocks = 10;   // per MCU, by the standard
constexpr size_t kMargin = 4096;  // zeros after the data: more than the longest codes of one MCU

// A bit reader over bytes without stuffing; it may read up to kMargin bytes beyond the end.
struct Bits {
  const uint8_t* next = nullptr;
  uint64_t ahead = 0;  // the next bits, from the top
  int count = 0;

  // Makes 56 or more bits available. Bits beyond `count` are correct already and are read again by the next call.
  void Refill() {
    uint64_t word;
    std::memcpy(&word, next, 8);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    ahead |= word >> count;
    next += (63 - count) >> 3;
    count |= 56;
  }

  uint32_t Peek(int length) const { return static_cast<uint32_t>(ahead >> (64 - length)); }

  void Drop(int length) {
    ahead <<= length;
    count -= length;
  }
};

// Reused from image to image: tables, which are mostly equal, and the buffer for the data.
struct HuffmanScratch {
  Code dc[4], ac[4];
  std::vector<uint8_t> data;
  std::vector<size_t> ends;  // of the data between restart markers
};

// The tables of each block of an MCU, and the grid of MCUs in the image.
struct Layout {
  int blocks;
  uint8_t component[kMostBlocks], dc[kMostBlocks], ac[kMostBlocks];
  bool dc_alone[kMostBlocks];     // the block becomes one pixel, so its AC values are not needed
  int columns;                    // of MCUs
  int first_column, last_column;  // inside the crop box
  int restart_interval;           // MCUs; 0: none
};

class HuffmanReader {
 public:
  // Takes the data after the header; the caller has set the tables in `scratch`.
  void Start(Bytes coded, const Layout& layout, HuffmanScratch* scratch) {
    scratch_ = scratch;
    layout_ = layout;
    Unstuff(coded);
    column_ = 0;
    left_ = layout.restart_interval;
    segment_ = 0;
    Begin(0);
  }

  // Reads the next MCU into `blocks`, which must be zero, or skips it if it is outside the box; false if irregular.
  bool Next(int16_t (**blocks)[kBlock]) {
    if (layout_.restart_interval && left_-- == 0 && !Restart()) return false;
    const bool wanted = blocks && column_ >= layout_.first_column && column_ <= layout_.last_column;
    if (++column_ == layout_.columns) column_ = 0;
    for (int i = 0; i < layout_.blocks; ++i) {
      const Code& ac = scratch_->ac[layout_.ac[i]];
      int dc;
      if (!ReadDc(scratch_->dc[layout_.dc[i]], &bits_, &dc)) return false;
      predicted_[layout_.component[i]] += static_cast<uint32_t>(dc);
      int16_t* block = wanted ? *blocks[i] : nullptr;
      if (block) block[0] = static_cast<int16_t>(predicted_[layout_.component[i]]);
      if (!(block && !layout_.dc_alone[i] ? ReadAc(ac, &bits_, block) : StepOver(ac, &bits_))) return false;
    }
    return Position() <= 8 * scratch_->ends[segment_];
  }

  // Whether all data was read: only bits that pad the last byte may be left.
  bool AtEnd() const { return segment_ + 1 == scratch_->ends.size() && IsSpent(); }
  // The end of the data: the first marker other than a restart marker, or after the last byte.
  const uint8_t* end() const { return end_; }

 private:
  // Copies the data without the zero after each FF, up to the first marker other than a restart marker.
  void Unstuff(Bytes coded) {
    std::vector<uint8_t>& data = scratch_->data;
    if (data.size() < coded.size + kMargin) data.resize(coded.size + kMargin);
    scratch_->ends.clear();
    const uint8_t *from = coded.data, *const end = coded.data + coded.size;
    uint8_t* to = data.data();
    for (int restarts = 0;;) {
      const auto* stop = static_cast<const uint8_t*>(std::memchr(from, 0xFF, static_cast<size_t>(end - from)));
      if (!stop) stop = end;
      std::memcpy(to, from, static_cast<size_t>(stop - from));
      to += stop - from;
      end_ = stop;
      if (end - stop < 2) break;
      from = stop + 2;
      if (stop[1] == 0) {
        *to++ = 0xFF;
      } else if (stop[1] == 0xFF) {
        from = stop + 1;  // a fill byte
      } else if (stop[1] == 0xD0 + restarts % 8) {
        ++restarts;
        scratch_->ends.push_back(static_cast<size_t>(to - data.data()));
      } else {
        break;
      }
    }
    scratch_->ends.push_back(static_cast<size_t>(to - data.data()));
    std::memset(to, 0, kMargin);
  }

  void Begin(size_t at) {
    bits_ = {scratch_->data.data() + at, 0, 0};
    std::memset(predicted_, 0, sizeof(predicted_));
  }

  bool Restart() {
    left_ = layout_.restart_interval - 1;
    if (segment_ + 1 >= scratch_->ends.size() || !IsSpent()) return false;
    Begin(scratch_->ends[segment_++]);
    return true;
  }

  bool IsSpent() const { return Position() + 8 > 8 * scratch_->ends[segment_]; }

  // Number of bits read.
  size_t Position() const {
    return 8 * static_cast<size_t>(bits_.next - scratch_->data.data()) - static_cast<size_t>(bits_.count);
  }

  static bool ReadDc(const Code& code, Bits* bits, int* value) {
    bits->Refill();
    const Lookup entry = code.lookups()[bits->Peek(kLookupBits)];
    if (entry.length) {
      bits->Drop(entry.first_length);
      *value = entry.first_value;
      return true;
    }
    int advance;
    return ReadLong(code, entry, bits, &advance, value);
  }

  static bool ReadAc(const Code& code, Bits* shared, int16_t* block) {
    const Lookup* lookups = code.lookups();
    Bits bits = *shared;  // in registers
    int k = 1;
    while (k < kBlock) {
      bits.Refill();
      for (int i = 0; i < 56 / kLookupBits && k < kBlock; ++i) {
        const Lookup entry = lookups[bits.Peek(kLookupBits)];
        if (!entry.length) {
          bits.Refill();
          int advance, value;
          if (!ReadLong(code, entry, &bits, &advance, &value)) return false;
          k += advance;
          block[kPlaces.at[k - 1]] = static_cast<int16_t>(value);
          break;
        }
        k += entry.first_advance;
        block[kPlaces.at[k - 1]] = entry.first_value;
        if (k >= kBlock) {  // the second symbol belongs to the next block
          bits.Drop(entry.first_length);
          break;
        }
        bits.Drop(entry.length);
        k += entry.second_advance;
        block[kPlaces.at[k - 1]] = entry.second_value;
      }
    }
    *shared = bits;
    return k == kBlock || k > kEnd;  // otherwise a run exceeds the block
  }

  static bool StepOver(const Code& code, Bits* shared) {
    const uint16_t* steps = code.steps();
    Bits bits = *shared;
    int k = 1;
    while (k < kBlock) {
      bits.Refill();
      for (int i = 0; i < 56 / kLongestStep && k < kBlock; ++i) {
        const uint32_t step = steps[bits.Peek(kStepBits)];
        const int after = k + static_cast<int>(step >> 8);
        // Symbols after the last coefficient belong to the next block, and a full block has no end-of-block symbol.
        if (!(step & 255) || (after != kBlock && after % kEnd >= kBlock)) {
          bits.Refill();
          int advance, value;
          if (!ReadOne(code, &bits, &advance, &value)) return false;
          k += advance;
          break;
        }
        bits.Drop(static_cast<int>(step & 255));
        k = after;
      }
    }
    *shared = bits;
    return k == kBlock || k > kEnd;
  }

  // Reads one symbol of any length and its value; needs 31 bits.
  static bool ReadOne(const Code& code, Bits* bits, int* advance, int* value) {
    const Lookup entry = code.lookups()[bits->Peek(kLookupBits)];
    if (!entry.length) return ReadLong(code, entry, bits, advance, value);
    *advance = entry.first_advance;
    *value = entry.first_value;
    bits->Drop(entry.first_length);
    return true;
  }

  // Reads a symbol whose value is not in `entry`; needs 31 bits. False if there is no such symbol.
  static bool ReadLong(const Code& code, const Lookup& entry, Bits* bits, int* advance, int* value) {
    int length = entry.first_length;
    const int symbol = length ? entry.first_advance : code.LongSymbol(bits->Peek(16), &length);
    if (symbol < 0) return false;
    bits->Drop(length);
    const int size = symbol & 15;
    *advance = Advance(symbol);
    *value = size ? Extend(bits->Peek(size), size) : 0;
    bits->Drop(size);
    return true;
  }

  HuffmanScratch* scratch_ = nullptr;
  Layout layout_ = {};
  Bits bits_;
  uint32_t predicted_[4] = {};
  int column_ = 0, left_ = 0;
  size_t segment_ = 0;
  const uint8_t* end_ = nullptr;
};

}  // namespace penstock

#endif  // PENSTOCK_NATIVE_HUFFMAN_H_
