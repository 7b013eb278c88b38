// libjpeg with error codes instead of longjmp: every call returns whether it succeeded.
//
//   Open ─► header: size, components ─┬─► Start: only the columns and rows of a box ─┬─► ReadRows, ReadRows, …
//                                     └─► StartGray: at an eighth of the size ───────┘
//
// libjpeg reports an error by calling a function that must not return. Each call below sets the place to jump back to
// and calls only libjpeg, so that no destructor is skipped; our own destructor closes what is open. Damaged data is only
// a warning to libjpeg, which continues with gray pixels: here it is an error. Warnings that affect no pixel (stray
// bytes between segments, header versions) are ignored, as TensorFlow's decoder does.
//
// Sequential data is read by a HuffmanReader instead of libjpeg's own. It replaces the function with which libjpeg reads
// an MCU: the second word of a structure that is not part of libjpeg's interface, but has started with the same two
// functions since 1995. If either function is not in libjpeg's code, libjpeg's own reader is used.

#ifndef PENSTOCK_NATIVE_JPEG_READER_H_
#define PENSTOCK_NATIVE_JPEG_READER_H_

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include <dlfcn.h>

#include "bytes.h"
#include "huffman.h"
#include "jpeglib.h"

static_assert(JPEG_LIB_VERSION == 62 && LIBJPEG_TURBO_VERSION_NUMBER >= 1005000, "partial decoding needs libjpeg-turbo 1.5");

namespace penstock {

// Each scan of a progressive file costs a pass over the whole image; encoders write about ten.
constexpr int kMostScans = 100;

// The start of libjpeg's structure.
struct EntropyDecoder {
  void (*start_pass)(j_decompress_ptr);
  boolean (*decode_mcu)(j_decompress_ptr, JBLOCKROW*);
};

inline bool IsInLibjpeg(const void* code) {
  Dl_info theirs, here;
  return dladdr(reinterpret_cast<const void*>(&jpeg_start_decompress), &theirs) && dladdr(code, &here) &&
         theirs.dli_fbase == here.dli_fbase;
}

class JpegReader {
 public:
  // With `scratch`, our own Huffman reader is used where possible.
  explicit JpegReader(HuffmanScratch* scratch) : scratch_(scratch) { jpeg_.mem = nullptr; }
  ~JpegReader() { jpeg_destroy_decompress(&jpeg_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  // Reads the header. The bytes must live as long as the reader.
  bool Open(Bytes bytes) {
    jpeg_.err = jpeg_std_error(&errors_);
    errors_.error_exit = Fail;
    errors_.emit_message = Warn;
    errors_.output_message = [](j_common_ptr) {};
    jpeg_.client_data = this;
    if (setjmp(back_)) return false;
    jpeg_create_decompress(&jpeg_);  // fails if headers and library do not match
    progress_.progress_monitor = CountScans;
    jpeg_.progress = &progress_;
    jpeg_mem_src(&jpeg_, bytes.data, bytes.size);
    end_ = bytes.data + bytes.size;
    jpeg_read_header(&jpeg_, TRUE);
    return true;
  }

  int height() const { return static_cast<int>(jpeg_.image_height); }
  int width() const { return static_cast<int>(jpeg_.image_width); }
  bool supported() const {
    return jpeg_.data_precision == 8 && (jpeg_.num_components == 1 || jpeg_.num_components == 3) && !jpeg_.arith_code;
  }

  // Starts reading the rows of `box`, given in pixels of the image at 1 / `shrink` of its size.
  bool Start(const Box& box, int shrink) {
    if (setjmp(back_)) return false;
    jpeg_.out_color_space = JCS_RGB;
    jpeg_.dct_method = JDCT_IFAST;  // as all of TensorFlow's decoders do
    jpeg_.scale_num = 1;
    jpeg_.scale_denom = static_cast<unsigned>(shrink);
    jpeg_start_decompress(&jpeg_);
    JDIMENSION left = static_cast<JDIMENSION>(box.left), width = static_cast<JDIMENSION>(box.width);
    // Columns start at a block of pixels, so there may be some to the left of the box.
    if (width != jpeg_.output_width) jpeg_crop_scanline(&jpeg_, &left, &width);
    margin_ = box.left - static_cast<int>(left);
    StartOwnReader(static_cast<int>(left));
    if (box.top) jpeg_skip_scanlines(&jpeg_, static_cast<JDIMENSION>(box.top));
    return true;
  }

  // Starts reading the whole image in gray at an eighth of its size; false if our own Huffman reader cannot read it.
  bool StartGray() {
    if (setjmp(back_)) return false;
    jpeg_.out_color_space = JCS_GRAYSCALE;
    jpeg_.scale_num = 1;
    jpeg_.scale_denom = 8;
    jpeg_start_decompress(&jpeg_);
    return StartOwnReader(0);
  }

  int stride() const { return static_cast<int>(jpeg_.output_width) * 3; }  // bytes per row read
  int margin() const { return margin_; }                                   // pixels per row to the left of the box

  // Reads `count` rows into `rows` of `stride` bytes each.
  bool ReadRows(uint8_t** rows, int count) {
    volatile int done = 0;
    if (setjmp(back_)) return false;
    while (done < count) {
      const JDIMENSION read = jpeg_read_scanlines(&jpeg_, rows + done, static_cast<JDIMENSION>(count - done));
      if (!read) return Explain("no more rows");
      done = done + static_cast<int>(read);
    }
    return true;
  }

  // Whether our own reader has used all data, up to an end marker in the last two bytes.
  bool AtEnd() const {
    return huffman_.AtEnd() && end_ - huffman_.end() == 2 && huffman_.end()[1] == JPEG_EOI;
  }

  // The reason of the last failure.
  const char* problem() const { return problem_; }
  // Whether our own Huffman reader was used, so that libjpeg's may still succeed.
  bool irregular() const { return own_; }

 private:
  static JpegReader* Self(j_common_ptr jpeg) { return static_cast<JpegReader*>(jpeg->client_data); }

  bool Explain(const char* text) {
    std::snprintf(problem_, sizeof(problem_), "%s", text);
    return false;
  }

  [[noreturn]] static void Fail(j_common_ptr jpeg) {
    JpegReader* self = Self(jpeg);
    jpeg->err->format_message(jpeg, self->problem_);
    std::longjmp(self->back_, 1);
  }

  static void Warn(j_common_ptr jpeg, int level) {
    if (level < 0 && !Harmless(jpeg->err)) Fail(jpeg);
  }

  // By text: message numbers differ between versions of the library.
  static bool Harmless(const jpeg_error_mgr* errors) {
    static const char* const kHarmless[] = {"Corrupt JPEG data: %u extraneous bytes", "Unknown Adobe color transform",
                                            "Warning: unknown JFIF revision", "Corrupt JPEG data: bad ICC marker"};
    if (errors->msg_code <= 0 || errors->msg_code > errors->last_jpeg_message) return false;
    const char* text = errors->jpeg_message_table[errors->msg_code];
    for (const char* start : kHarmless) {
      if (text && std::strncmp(text, start, std::strlen(start)) == 0) return true;
    }
    return false;
  }

  static void CountScans(j_common_ptr jpeg) {
    if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= kMostScans) return;
    JpegReader* self = Self(jpeg);
    std::snprintf(self->problem_, sizeof(self->problem_), "more than %d scans", kMostScans);
    std::longjmp(self->back_, 1);
  }

  EntropyDecoder* Entropy() { return reinterpret_cast<EntropyDecoder*>(jpeg_.entropy); }

  // Replaces libjpeg's reader by our own, from column `left` on; false if ours does not support the image.
  bool StartOwnReader(int left) {
    if (!scratch_) return false;
    static const bool fits = IsInLibjpeg(reinterpret_cast<const void*>(Entropy()->start_pass)) &&
                             IsInLibjpeg(reinterpret_cast<const void*>(Entropy()->decode_mcu));
    const bool one_scan = !jpeg_.progressive_mode && jpeg_.comps_in_scan == jpeg_.num_components;
    if (!fits || !one_scan || jpeg_.blocks_in_MCU > kMostBlocks) return false;
    Layout layout = {};
    layout.blocks = jpeg_.blocks_in_MCU;
    for (int i = 0; i < layout.blocks; ++i) {
      const int component = jpeg_.MCU_membership[i];
      const jpeg_component_info* info = jpeg_.cur_comp_info[component];
      layout.component[i] = static_cast<uint8_t>(component);
      layout.dc[i] = static_cast<uint8_t>(info->dc_tbl_no);
      layout.ac[i] = static_cast<uint8_t>(info->ac_tbl_no);
      layout.dc_alone[i] = info->DCT_scaled_size == 1 || !info->component_needed;
      if (!SetCode(jpeg_.dc_huff_tbl_ptrs, scratch_->dc, layout.dc[i], true) ||
          !SetCode(jpeg_.ac_huff_tbl_ptrs, scratch_->ac, layout.ac[i], false)) {
        return false;
      }
    }
    // An MCU of a single component is one block, whatever its sampling factors.
    const int mcu = (jpeg_.num_components == 1 ? 1 : jpeg_.max_h_samp_factor) * jpeg_.min_DCT_scaled_size;
    layout.columns = static_cast<int>(jpeg_.MCUs_per_row);
    layout.first_column = left / mcu;
    layout.last_column = (left + static_cast<int>(jpeg_.output_width) - 1) / mcu;
    layout.restart_interval = static_cast<int>(jpeg_.restart_interval);
    huffman_.Start({jpeg_.src->next_input_byte, jpeg_.src->bytes_in_buffer}, layout, scratch_);
    Entropy()->decode_mcu = DecodeMcu;
    return own_ = true;
  }

  static bool SetCode(JHUFF_TBL* const* tables, Code* codes, int number, bool is_dc) {
    return number < NUM_HUFF_TBLS && tables[number] &&
           codes[number].Set(tables[number]->bits, tables[number]->huffval, is_dc);
  }

  static boolean DecodeMcu(j_decompress_ptr jpeg, JBLOCKROW* blocks) {
    JpegReader* self = Self(reinterpret_cast<j_common_ptr>(jpeg));
    if (self->huffman_.Next(blocks)) return TRUE;
    self->Explain("Corrupt JPEG data");
    std::longjmp(self->back_, 1);
  }

  HuffmanScratch* scratch_;
  HuffmanReader huffman_;
  bool own_ = false;
  const uint8_t* end_ = nullptr;  // of the file
  jpeg_decompress_struct jpeg_;
  jpeg_error_mgr errors_;
  jpeg_progress_mgr progress_ = {};
  std::jmp_buf back_;
  char problem_[JMSG_LENGTH_MAX] = "";
  int margin_ = 0;
};

}  // namespace penstock

#endif  // PENSTOCK_NATIVE_JPEG_READER_H_
