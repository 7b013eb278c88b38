// Decodes mutated images under AddressSanitizer: no crash, no leak, no difference between implementations.
//
//   seeds ─► record i: a seed image, some faults and a box, drawn from (seed, i) ─► decode in several ways ─► compare
//
//   fuzz SEEDS COUNT SEED [INDEX]    SEEDS: per image its size as a little-endian int32, then its bytes;
//                                    INDEX: only this record
//
// A record is decoded or rejected with a reason. Our Huffman reader and libjpeg's must agree on the pixels of records
// that both decode; AVX2 and plain code must always agree; and libjpeg must decode what the checker calls regular.

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "check/check.h"
#include "decode/decode.h"

namespace {

using penstock::Box;
using penstock::Options;

constexpr int kMostOut = 70;
constexpr int64_t kMaxPixels = 1 << 20;

class Dice {
 public:
  Dice(unsigned seed, unsigned index) {
    std::seed_seq both{seed, index};
    engine_.seed(both);
  }
  // A number from 0 to `below` - 1.
  size_t Below(size_t below) { return below ? engine_() % below : 0; }
  bool OneIn(size_t many) { return Below(many) == 0; }
  char Byte() { return static_cast<char>(Below(256)); }

 private:
  std::mt19937_64 engine_;
};

void FlipBits(Dice* dice, std::string* file) {
  for (size_t i = 1 + dice->Below(8); i-- > 0;) {
    (*file)[dice->Below(file->size())] ^= static_cast<char>(1 << dice->Below(8));
  }
}

// In the coded data, which no header check covers.
void FlipLate(Dice* dice, std::string* file) {
  const size_t half = file->size() / 2;
  for (size_t i = 1 + dice->Below(4); i-- > 0;) {
    (*file)[half + dice->Below(file->size() - half)] ^= static_cast<char>(1 << dice->Below(8));
  }
}

void Cut(Dice* dice, std::string* file) { file->resize(dice->Below(file->size())); }

void EditHeader(Dice* dice, std::string* file) {
  const size_t header = std::min<size_t>(file->size(), 700);
  for (size_t i = 1 + dice->Below(4); i-- > 0;) (*file)[dice->Below(header)] = dice->Byte();
}

// Height, width, components, sampling factors and table numbers.
void EditFrame(Dice* dice, std::string* file) {
  for (size_t at = 2; at + 20 < file->size(); ++at) {
    const int marker = static_cast<uint8_t>((*file)[at + 1]);
    if (static_cast<uint8_t>((*file)[at]) == 0xFF && marker >= 0xC0 && marker <= 0xC2) {
      (*file)[at + 4 + dice->Below(16)] = dice->OneIn(2) ? dice->Byte() : static_cast<char>(dice->Below(5));
      return;
    }
  }
}

void InsertMarker(Dice* dice, std::string* file) {
  std::string segment = {static_cast<char>(0xFF), static_cast<char>(0xC0 + dice->Below(64))};
  if (dice->OneIn(2)) segment += {'\0', static_cast<char>(dice->Below(30))};
  for (size_t i = dice->Below(30); i-- > 0;) segment += dice->Byte();
  file->insert(dice->Below(file->size()), segment);
}

void RemovePart(Dice* dice, std::string* file) {
  file->erase(dice->Below(file->size()), 1 + dice->Below(dice->OneIn(2) ? 4 : 200));
}

void Splice(Dice* dice, const std::string& other, std::string* file) {
  const size_t from = dice->Below(other.size()), length = dice->Below(other.size() - from);
  file->replace(dice->Below(file->size()), dice->Below(300), other.substr(from, length));
}

void Tamper(Dice* dice, const std::vector<std::string>& seeds, std::string* file) {
  if (file->empty()) return;
  switch (dice->Below(8)) {
    case 0: return FlipBits(dice, file);
    case 1: return FlipLate(dice, file);
    case 2: return Cut(dice, file);
    case 3: return EditHeader(dice, file);
    case 4: return EditFrame(dice, file);
    case 5: return InsertMarker(dice, file);
    case 6: return RemovePart(dice, file);
    default: return Splice(dice, seeds[dice->Below(seeds.size())], file);
  }
}

// Mostly inside the image that the header describes, sometimes anywhere.
Box DrawBox(Dice* dice, const penstock::Shape& shape) {
  const auto any = [&] { return static_cast<int>(dice->Below(1u << dice->Below(32))) - (dice->OneIn(9) ? 5 : 0); };
  if (dice->OneIn(20) || shape.height <= 0 || shape.width <= 0) return {any(), any(), any(), any()};
  if (dice->OneIn(4)) return {0, 0, shape.height, shape.width};
  const int height = 1 + static_cast<int>(dice->Below(static_cast<size_t>(shape.height)));
  const int width = 1 + static_cast<int>(dice->Below(static_cast<size_t>(shape.width)));
  return {static_cast<int>(dice->Below(static_cast<size_t>(shape.height - height + 1))),
          static_cast<int>(dice->Below(static_cast<size_t>(shape.width - width + 1))), height, width};
}

struct Decoded {
  std::string problem;
  std::vector<uint8_t> pixels;
};

// Copies the file and decodes into buffers of exactly the right size, so that any byte beyond them is detected.
Decoded Decode(const std::string& file, const Box& box, bool flip, const Options& options, penstock::Scratch* scratch) {
  const std::unique_ptr<uint8_t[]> copy(new uint8_t[file.size()]);
  std::memcpy(copy.get(), file.data(), file.size());
  Decoded decoded;
  decoded.pixels.assign(static_cast<size_t>(options.height) * options.width * 3, 0);
  decoded.pixels.shrink_to_fit();
  decoded.problem =
      penstock::DecodeCropResize({copy.get(), file.size()}, box, flip, options, scratch, decoded.pixels.data());
  return decoded;
}

// Whether the checker accepts the file up to its last end marker; the pixel buffer has exactly the size needed.
bool IsRegular(const std::string& file, const penstock::Shape& shape, penstock::HuffmanScratch* scratch) {
  const size_t size = file.rfind("\xff\xd9") + 2;  // 1 if there is none
  const std::unique_ptr<uint8_t[]> copy(new uint8_t[size]);
  std::memcpy(copy.get(), file.data(), std::min(size, file.size()));
  const auto eighth = [](int side) { return static_cast<size_t>((side + 7) / 8); };
  const std::unique_ptr<uint8_t[]> gray(new uint8_t[eighth(shape.height) * eighth(shape.width)]);
  return penstock::IsRegular({copy.get(), size}, shape.height, shape.width, scratch, gray.get());
}

[[noreturn]] void Fail(unsigned index, const char* what) {
  std::fprintf(stderr, "record %u: %s\n", index, what);
  std::exit(1);
}

int regular = 0;  // records that the checker accepts

// Returns the reason why the record was rejected, or an empty string.
std::string Try(unsigned seed, unsigned index, const std::vector<std::string>& seeds, penstock::Scratch* scratch) {
  Dice dice(seed, index);
  std::string file = seeds[dice.Below(seeds.size())];
  for (size_t faults = dice.OneIn(10) ? 0 : 1 + dice.Below(3); faults-- > 0;) Tamper(&dice, seeds, &file);
  const penstock::Shape shape = penstock::ReadShape({reinterpret_cast<const uint8_t*>(file.data()), file.size()});
  const Box box = DrawBox(&dice, shape);
  Options options = {};
  options.height = 1 + static_cast<int>(dice.Below(kMostOut));
  options.width = 1 + static_cast<int>(dice.Below(kMostOut));
  options.antialias = dice.OneIn(2);
  options.shrink_in_dct = dice.OneIn(2);
  options.max_pixels = kMaxPixels;
  const bool flip = dice.OneIn(2);
  const Decoded ours = Decode(file, box, flip, options, scratch);
  options.vectors = false;
  const Decoded plain = Decode(file, box, flip, options, scratch);
  if (plain.problem != ours.problem) Fail(index, "plain code and vectors disagree about the reason");
  if (ours.problem.empty() && plain.pixels != ours.pixels) Fail(index, "plain code and vectors give different pixels");
  options.own_huffman = false;
  const Decoded theirs = Decode(file, box, flip, options, scratch);
  if (theirs.problem.empty() && !ours.problem.empty()) Fail(index, "rejected, but libjpeg decodes it");
  if (theirs.problem.empty() && theirs.pixels != ours.pixels) Fail(index, "the Huffman readers give different pixels");
  if (IsRegular(file, shape, &scratch->huffman) && static_cast<int64_t>(shape.height) * shape.width <= kMaxPixels) {
    const Decoded whole = Decode(file, {0, 0, shape.height, shape.width}, flip, options, scratch);
    if (!whole.problem.empty()) Fail(index, "regular to the checker, but libjpeg rejects it");
    ++regular;
  }
  return ours.problem;
}

std::vector<std::string> ReadSeeds(const char* path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  std::vector<std::string> seeds;
  for (size_t at = 0; at + 4 <= all.size();) {
    int32_t size;
    std::memcpy(&size, all.data() + at, 4);
    seeds.push_back(all.substr(at + 4, static_cast<size_t>(size)));
    at += 4 + static_cast<size_t>(size);
  }
  return seeds;
}

// Replaces numbers in a message, so that equal kinds of problems have equal texts.
std::string Kind(std::string problem) {
  bool hexadecimal = false;
  for (size_t i = 0; i < problem.size(); ++i) {
    const auto letter = static_cast<unsigned char>(problem[i]);
    if (i > 1 && problem[i - 1] == 'x' && problem[i - 2] == '#') hexadecimal = true;  // after 0x
    hexadecimal = hexadecimal && std::isxdigit(letter);
    if (std::isdigit(letter) || hexadecimal) problem[i] = '#';
  }
  problem.erase(std::unique(problem.begin(), problem.end(), [](char a, char b) { return a == '#' && b == '#'; }),
                problem.end());
  return problem;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4) return std::fputs("usage: fuzz SEEDS COUNT SEED [INDEX]\n", stderr), 2;
  const std::vector<std::string> seeds = ReadSeeds(arguments[1]);
  const auto seed = static_cast<unsigned>(std::atoi(arguments[3]));
  const unsigned first = count > 4 ? static_cast<unsigned>(std::atoi(arguments[4])) : 0;
  const unsigned end = count > 4 ? first + 1 : static_cast<unsigned>(std::atoi(arguments[2]));
  const auto scratch = std::make_unique<penstock::Scratch>();
  std::map<std::string, int> kinds;
  for (unsigned index = first; index < end; ++index) ++kinds[Kind(Try(seed, index, seeds, scratch.get()))];
  for (const auto& kind : kinds) std::printf("%d\t%s\n", kind.second, kind.first.c_str());
  std::fprintf(stderr, "%d regular\n", regular);
}
