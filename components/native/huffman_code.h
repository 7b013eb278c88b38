// A Huffman code of a JPEG as tables indexed by the next bits of the data.
//
//   counts and symbols from the file ─► lookups: one or two coefficients per lookup
//                                   └─► steps: as many symbols as fit, for blocks to skip

#ifndef PENSTOCK_NATIVE_HUFFMAN_CODE_H_
#define PENSTOCK_NATIVE_HUFFMAN_CODE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace penstock {

// Bits per lookup. The tables have 8 and 4 KB: larger ones evict each other from the cache and were slower.
constexpr int kLookupBits = 10;
constexpr int kStepBits = 11;
constexpr int kLongestStep = 56 / 3;  // bits consumed per step at most: three steps between refills
constexpr int kBlock = 64;  // coefficients
constexpr int kEnd = 128;   // added to the position by "end of block"; larger than any run

// Position of a coefficient in its block by its index in the file; indices beyond the last map to the last position.
struct Places {
  uint8_t at[kBlock + kEnd] = {};
  constexpr Places() {
    int number = 0;
    for (int diagonal = 0; diagonal < 15; ++diagonal) {
      for (int i = 0; i <= diagonal; ++i) {
        const int row = diagonal % 2 ? i : diagonal - i, column = diagonal - row;
        if (row < 8 && column < 8) at[number++] = static_cast<uint8_t>(8 * row + column);
      }
    }
    while (number < kBlock + kEnd) at[number++] = kBlock - 1;
  }
};
inline constexpr Places kPlaces;

// The value of `size` bits: the upper half as is, the lower half negative.
inline int Extend(uint32_t bits, int size) {
  return static_cast<int>(bits) - (bits >> (size - 1) ? 0 : (1 << size) - 1);
}

// How far a symbol advances: over a run of zeros and its own coefficient; as in libjpeg, a size of zero that is not a
// run of sixteen ends the block.
inline int Advance(int symbol) { return symbol & 15 || symbol == 0xF0 ? (symbol >> 4) + 1 : kEnd; }

// The symbols in the next kLookupBits bits: one or two, with their values. With one symbol only, the second repeats the first
// and advances by zero. If not even one symbol with its value fits, length is zero; then first_length is the length of
// the symbol and first_advance the symbol itself, or both are zero if the symbol does not fit either.
struct Lookup {
  uint8_t length, first_length;
  uint8_t first_advance, second_advance;
  int16_t first_value, second_value;
};

// A code as a file defines it, and its tables.
class Code {
 public:
  // Sets the code; false if it is invalid. Setting the same code again costs one comparison.
  bool Set(const uint8_t* counts, const uint8_t* symbols, bool is_dc) {
    Definition definition = {};
    int total = 0;
    for (int length = 1; length <= 16; ++length) total += counts[length];
    if (total > 256) return false;
    std::memcpy(definition.counts, counts, 17);
    std::memcpy(definition.symbols, symbols, static_cast<size_t>(total));
    definition.counts[0] = is_dc ? 2 : 1;  // unused by JPEG; never zero, which marks a code that was not set
    if (std::memcmp(&definition, &definition_, sizeof(definition)) == 0) return true;
    definition_ = {};
    if (!Fill(definition, is_dc)) return false;
    definition_ = definition;
    return true;
  }

  const Lookup* lookups() const { return lookups_; }
  // Indexed by the next kStepBits bits: length (8 bits) and advance (8 bits) of all symbols in them, or zero.
  const uint16_t* steps() const { return steps_; }

  // Returns the symbol longer than kLookupBits at the start of 16 bits, and its length; -1 if there is none.
  int LongSymbol(uint32_t bits, int* length) const {
    for (int n = kLookupBits + 1; n <= 16; ++n) {
      if (bits < limits_[n]) {
        *length = n;
        return definition_.symbols[static_cast<uint8_t>(firsts_[n] + (bits >> (16 - n)))];
      }
    }
    return -1;
  }

 private:
  struct Definition {
    uint8_t counts[17];
    uint8_t symbols[256];
  };

  bool Fill(const Definition& definition, bool is_dc);
  void FillSeconds();
  void FillSteps();

  Definition definition_ = {};
  uint32_t limits_[17];  // codes of length n, left-aligned in 16 bits, are below it
  int firsts_[17];       // index of the symbol minus its code
  Lookup lookups_[1 << kLookupBits];
  uint16_t steps_[1 << kStepBits];
};

inline bool Code::Fill(const Definition& definition, bool is_dc) {
  std::memset(lookups_, 0, sizeof(lookups_));
  uint32_t code = 0;  // the next code, left-aligned in 16 bits
  int number = 0;
  for (int length = 1; length <= 16; ++length) {
    firsts_[length] = number - static_cast<int>(code >> (16 - length));
    for (int i = 0; i < definition.counts[length]; ++i, ++number, code += 1u << (16 - length)) {
      if (code + (1u << (16 - length)) > 1u << 16) return false;
      const int symbol = definition.symbols[number], size = symbol & 15;
      if (is_dc && symbol > 15) return false;
      const int total = length + size, spare = kLookupBits - total;
      if (spare < 0) {
        const Lookup alone = {0, static_cast<uint8_t>(length), static_cast<uint8_t>(symbol), 0, 0, 0};
        const uint32_t first = code >> (16 - kLookupBits), many = length > kLookupBits ? 0 : 1u << (kLookupBits - length);
        for (uint32_t j = 0; j < many; ++j) lookups_[first + j] = alone;
        continue;
      }
      const int advance = is_dc ? 1 : Advance(symbol);
      for (uint32_t bits = 0; bits < 1u << size; ++bits) {
        const auto value = static_cast<int16_t>(size ? Extend(bits, size) : 0);
        const auto taken = static_cast<uint8_t>(total);
        const Lookup entry = {taken, taken, static_cast<uint8_t>(advance), 0, value, value};
        const uint32_t first = (code >> (16 - kLookupBits)) + (bits << spare);
        for (uint32_t j = 0; j < 1u << spare; ++j) lookups_[first + j] = entry;
      }
    }
    limits_[length] = code;
  }
  if (!is_dc) {
    FillSteps();
    FillSeconds();
  }
  return true;
}

// Adds the second symbol where it is in the same bits; nothing follows an end of block.
inline void Code::FillSeconds() {
  for (uint32_t bits = 0; bits < 1u << kLookupBits; ++bits) {
    Lookup& entry = lookups_[bits];
    if (!entry.length || entry.first_advance == kEnd) continue;
    const Lookup next = lookups_[bits << entry.length & ((1u << kLookupBits) - 1)];
    if (!next.length || entry.length + next.first_length > kLookupBits) continue;
    entry.length = static_cast<uint8_t>(entry.length + next.first_length);
    entry.second_advance = next.first_advance;
    entry.second_value = next.first_value;
  }
}

// As many symbols as fit, up to the end of the block. The value of the last one may extend beyond the indexed bits,
// because it is skipped.
inline void Code::FillSteps() {
  for (uint32_t bits = 0; bits < 1u << kStepBits; ++bits) {
    int length = 0, advance = 0;
    while (advance < kEnd && length < kStepBits) {
      const uint32_t rest = bits << length & ((1u << kStepBits) - 1);
      const Lookup entry = lookups_[rest >> (kStepBits - kLookupBits)];
      const int code = entry.first_length;
      if (!code || length + code > kStepBits) break;
      const int more = entry.length ? code : code + (entry.first_advance & 15);
      const int further = entry.length ? entry.first_advance : Advance(entry.first_advance);
      if (length + more > kLongestStep || (further < kEnd && advance + further >= kBlock)) break;
      length += more;
      advance += further;
    }
    steps_[bits] = static_cast<uint16_t>(length | advance << 8);
  }
}

}  // namespace penstock

#endif  // PENSTOCK_NATIVE_HUFFMAN_CODE_H_
