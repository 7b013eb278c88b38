// A Huffman code of a JPEG as tables that are looked up by the next bits of its data.
//
//   counts and symbols, as in the file ─► looks: one or two coefficients at one look
//                                     └─► steps: as many as fit, for blocks that nobody wants

#ifndef PENSTOCK_NATIVE_HUFFMAN_CODE_H_
#define PENSTOCK_NATIVE_HUFFMAN_CODE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace penstock {

// Bits that are looked up at once. Tables of 8 and 4 KB: larger ones push each other out of the cache, and are slower.
constexpr int kLook = 10;
constexpr int kStepLook = 11;
constexpr int kLongestStep = 56 / 3;  // bits by which one look may go on: three of them between refills
constexpr int kBlock = 64;  // coefficients
constexpr int kEnd = 128;   // added to the position by "end of block": no run reaches that far

// Where a coefficient stands in its block, by its number in the file; numbers beyond the last go to the last place.
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

// The value that `size` bits stand for: the upper half as they are, the lower half negative.
inline int Extend(uint32_t bits, int size) {
  return static_cast<int>(bits) - (bits >> (size - 1) ? 0 : (1 << size) - 1);
}

// How far a symbol goes on: over a run of zeros and its own coefficient, or, as libjpeg has it, to the end of the block
// with every size of zero that is not a run of sixteen.
inline int Advance(int symbol) { return symbol & 15 || symbol == 0xF0 ? (symbol >> 4) + 1 : kEnd; }

// What the next kLook bits say: one symbol or two, with their values. With one symbol only, the second is the first
// again, no further on. When not even one is within them with its value, the length is zero; then first_length and
// first_advance are those of the symbol alone and the symbol, or zero where not even that is within them.
struct Look {
  uint8_t length, first_length;
  uint8_t first_advance, second_advance;
  int16_t first_value, second_value;
};

// A code as a file defines it, and what was made of it.
class Code {
 public:
  // Takes the code over; false when it is not one. The same code again costs a comparison.
  bool Set(const uint8_t* counts, const uint8_t* symbols, bool is_dc) {
    Definition definition = {};
    int total = 0;
    for (int length = 1; length <= 16; ++length) total += counts[length];
    if (total > 256) return false;
    std::memcpy(definition.counts, counts, 17);
    std::memcpy(definition.symbols, symbols, static_cast<size_t>(total));
    definition.counts[0] = is_dc ? 2 : 1;  // not used by JPEG; never zero, as in a code that was not set yet
    if (std::memcmp(&definition, &definition_, sizeof(definition)) == 0) return true;
    definition_ = {};
    if (!Fill(definition, is_dc)) return false;
    definition_ = definition;
    return true;
  }

  const Look* looks() const { return looks_; }
  // Looked up by the next kStepLook bits: length (8 bits), advance (8) of all symbols that are within them, or zero.
  const uint16_t* steps() const { return steps_; }

  // Finds the symbol that 16 bits begin with, which is longer than kLook, and its length; -1 when there is none.
  int LongSymbol(uint32_t bits, int* length) const {
    for (int n = kLook + 1; n <= 16; ++n) {
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
  uint32_t limits_[17];  // codes of length n are below it, when they are written with 16 bits
  int firsts_[17];       // symbol's number less code
  Look looks_[1 << kLook];
  uint16_t steps_[1 << kStepLook];
};

inline bool Code::Fill(const Definition& definition, bool is_dc) {
  std::memset(looks_, 0, sizeof(looks_));
  uint32_t code = 0;  // the next one, with 16 bits
  int number = 0;
  for (int length = 1; length <= 16; ++length) {
    firsts_[length] = number - static_cast<int>(code >> (16 - length));
    for (int i = 0; i < definition.counts[length]; ++i, ++number, code += 1u << (16 - length)) {
      if (code + (1u << (16 - length)) > 1u << 16) return false;
      const int symbol = definition.symbols[number], size = symbol & 15;
      if (is_dc && symbol > 15) return false;
      const int total = length + size, spare = kLook - total;
      if (spare < 0) {
        const Look alone = {0, static_cast<uint8_t>(length), static_cast<uint8_t>(symbol), 0, 0, 0};
        const uint32_t first = code >> (16 - kLook), many = length > kLook ? 0 : 1u << (kLook - length);
        for (uint32_t j = 0; j < many; ++j) looks_[first + j] = alone;
        continue;
      }
      const int advance = is_dc ? 1 : Advance(symbol);
      for (uint32_t bits = 0; bits < 1u << size; ++bits) {
        const auto value = static_cast<int16_t>(size ? Extend(bits, size) : 0);
        const auto taken = static_cast<uint8_t>(total);
        const Look look = {taken, taken, static_cast<uint8_t>(advance), 0, value, value};
        const uint32_t first = (code >> (16 - kLook)) + (bits << spare);
        for (uint32_t j = 0; j < 1u << spare; ++j) looks_[first + j] = look;
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

// Adds what follows a first symbol and is within the same bits; nothing follows the end of a block.
inline void Code::FillSeconds() {
  for (uint32_t bits = 0; bits < 1u << kLook; ++bits) {
    Look& look = looks_[bits];
    if (!look.length || look.first_advance == kEnd) continue;
    const Look next = looks_[bits << look.length & ((1u << kLook) - 1)];
    if (!next.length || look.length + next.first_length > kLook) continue;
    look.length = static_cast<uint8_t>(look.length + next.first_length);
    look.second_advance = next.first_advance;
    look.second_value = next.first_value;
  }
}

// As many symbols as fit, until the end of the block; of the last one the value may go beyond the bits that are looked
// up, as nobody wants it.
inline void Code::FillSteps() {
  for (uint32_t bits = 0; bits < 1u << kStepLook; ++bits) {
    int length = 0, advance = 0;
    while (advance < kEnd && length < kStepLook) {
      const uint32_t rest = bits << length & ((1u << kStepLook) - 1);
      const Look look = looks_[rest >> (kStepLook - kLook)];
      const int code = look.first_length;
      if (!code || length + code > kStepLook) break;
      const int more = look.length ? code : code + (look.first_advance & 15);
      const int further = look.length ? look.first_advance : Advance(look.first_advance);
      if (length + more > kLongestStep || (further < kEnd && advance + further >= kBlock)) break;
      length += more;
      advance += further;
    }
    steps_[bits] = static_cast<uint16_t>(length | advance << 8);
  }
}

}  // namespace penstock

#endif  // PENSTOCK_NATIVE_HUFFMAN_CODE_H_
