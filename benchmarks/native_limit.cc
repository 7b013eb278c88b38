// The limit of libjpeg-turbo: decodes the rows of each box with a number of threads, and does nothing with them.
// A program that also resizes and returns pixels cannot be faster with the same library.
//
//   native_limit FILE THREADS ROUNDS    FILE: per image 5 little-endian int32 (bytes, top, left, height, width),
//                                       then its bytes
//   prints one line per round: images, seconds, CPU seconds

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "jpeglib.h"

namespace {

struct Image {
  const unsigned char* data;
  int32_t bytes, top, left, height, width;
};

std::vector<Image> Split(const std::string& file) {
  std::vector<Image> images;
  for (size_t at = 0; at < file.size();) {
    const int32_t* head = reinterpret_cast<const int32_t*>(file.data() + at);
    const auto* data = reinterpret_cast<const unsigned char*>(head + 5);
    images.push_back({data, head[0], head[1], head[2], head[3], head[4]});
    at += 20 + (static_cast<size_t>(head[0]) + 3) / 4 * 4;  // padded, so that the next head is aligned
  }
  return images;
}

// Faults end the program: the files are sound.
void Decode(const Image& image, std::vector<unsigned char>* row) {
  jpeg_decompress_struct jpeg;
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, image.data, static_cast<unsigned long>(image.bytes));
  jpeg_read_header(&jpeg, TRUE);
  jpeg.out_color_space = JCS_RGB;
  jpeg.dct_method = JDCT_IFAST;
  jpeg_start_decompress(&jpeg);
  JDIMENSION left = static_cast<JDIMENSION>(image.left), width = static_cast<JDIMENSION>(image.width);
  if (width != jpeg.output_width) jpeg_crop_scanline(&jpeg, &left, &width);
  if (image.top) jpeg_skip_scanlines(&jpeg, static_cast<JDIMENSION>(image.top));
  row->resize(static_cast<size_t>(jpeg.output_width) * 3);
  unsigned char* rows[] = {row->data()};
  for (int y = 0; y < image.height; ++y) jpeg_read_scanlines(&jpeg, rows, 1);
  jpeg_destroy_decompress(&jpeg);
}

void Round(const std::vector<Image>& images, int threads) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    std::vector<unsigned char> row;
    for (size_t i = next++; i < images.size(); i = next++) Decode(images[i], &row);
  };
  const auto begun = std::chrono::steady_clock::now();
  const std::clock_t cpu = std::clock();
  std::vector<std::thread> team;
  for (int i = 0; i < threads; ++i) team.emplace_back(work);
  for (std::thread& thread : team) thread.join();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begun;
  std::printf("%zu %.6f %.6f\n", images.size(), seconds.count(),
              static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) return std::fputs("usage: native_limit FILE THREADS ROUNDS\n", stderr), 2;
  std::ifstream stream(arguments[1], std::ios::binary);
  const std::string file((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  const std::vector<Image> images = Split(file);
  for (int round = 0; round < std::atoi(arguments[3]); ++round) Round(images, std::atoi(arguments[2]));
}
