// Two TensorFlow ops on whole batches: image sizes from headers, and crop boxes decoded to one size.
//
//   contents [n] ──────────────────────────► PenstockShapes ───────────► [n, 3]: height, width, format
//   contents [n], boxes [n, 4], flips [n] ─► PenstockDecodeCropResize ─► pixels [n, h, w, 3], problems [n]
//
// A batch in, a batch out: no map call per record, and no copy by `batch` afterwards.

#include <sys/resource.h>

#include <cstdint>
#include <string>
#include <vector>

#include "decode.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/util/work_sharder.h"

namespace penstock {
namespace {

namespace errors = tensorflow::errors;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::tstring;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

constexpr int64_t kCyclesPerDecode = 1'000'000;

Bytes BytesOf(const tstring& text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }

// Raises the niceness of this thread, so that the training loop does not wait for a core that decodes. Linux only:
// elsewhere it would change the whole process.
void SetNiceness(int nice) {
#ifdef __linux__
  static thread_local int done = 0;
  if (nice <= done) return;
  done = nice;
  if (getpriority(PRIO_PROCESS, 0) < nice) setpriority(PRIO_PROCESS, 0, nice);
#endif
}

REGISTER_OP("PenstockShapes")
    .Input("contents: string")
    .Output("shapes: int32")
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle contents;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &contents));
      c->set_output(0, c->Matrix(c->Dim(contents, 0), 3));
      return tensorflow::OkStatus();
    });

class Shapes : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& contents = context->input(0);
    OP_REQUIRES(context, contents.dims() == 1, errors::InvalidArgument("contents must be a vector"));
    Tensor* shapes = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape({contents.dim_size(0), 3}), &shapes));
    const auto from = contents.vec<tstring>();
    auto to = shapes->matrix<int32_t>();
    for (int64_t i = 0; i < contents.dim_size(0); ++i) {
      const Shape shape = ReadShape(BytesOf(from(i)));
      to(i, 0) = shape.height;
      to(i, 1) = shape.width;
      to(i, 2) = shape.format;
    }
  }
};
REGISTER_KERNEL_BUILDER(Name("PenstockShapes").Device(tensorflow::DEVICE_CPU), Shapes);

REGISTER_OP("PenstockDecodeCropResize")
    .Input("contents: string")
    .Input("boxes: int32")
    .Input("flips: bool")
    .Output("pixels: uint8")
    .Output("problems: string")
    .Attr("height: int >= 1")
    .Attr("width: int >= 1")
    .Attr("antialias: bool = false")
    .Attr("shrink_in_dct: bool = false")
    .Attr("max_pixels: int >= 1 = 50000000")
    .Attr("nice: int >= 0 = 0")
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle contents;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &contents));
      const DimensionHandle records = c->Dim(contents, 0);
      int height, width;
      TF_RETURN_IF_ERROR(c->GetAttr("height", &height));
      TF_RETURN_IF_ERROR(c->GetAttr("width", &width));
      c->set_output(0, c->MakeShape({records, c->MakeDim(height), c->MakeDim(width), c->MakeDim(3)}));
      c->set_output(1, c->Vector(records));
      return tensorflow::OkStatus();
    });

class DecodeBatch : public OpKernel {
 public:
  explicit DecodeBatch(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("height", &options_.height));
    OP_REQUIRES_OK(context, context->GetAttr("width", &options_.width));
    OP_REQUIRES(context, options_.height <= kMostPixels && options_.width <= kMostPixels,
                errors::InvalidArgument("size of ", options_.height, " x ", options_.width, ", expected at most ",
                                        kMostPixels, " pixels per side"));
    OP_REQUIRES_OK(context, context->GetAttr("antialias", &options_.antialias));
    OP_REQUIRES_OK(context, context->GetAttr("shrink_in_dct", &options_.shrink_in_dct));
    OP_REQUIRES_OK(context, context->GetAttr("max_pixels", &options_.max_pixels));
    OP_REQUIRES_OK(context, context->GetAttr("nice", &nice_));
  }

  void Compute(OpKernelContext* context) override {
    const Tensor &contents = context->input(0), &boxes = context->input(1), &flips = context->input(2);
    OP_REQUIRES(context, contents.dims() == 1, errors::InvalidArgument("contents must be a vector"));
    const int64_t records = contents.dim_size(0);
    OP_REQUIRES(context, boxes.shape() == TensorShape({records, 4}) && flips.shape() == TensorShape({records}),
                errors::InvalidArgument("boxes of ", boxes.shape().DebugString(), " and flips of ",
                                        flips.shape().DebugString(), ", expected [", records, ", 4] and [", records,
                                        "]"));
    SetNiceness(nice_);
    Tensor *pixels = nullptr, *problems = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(
                                0, TensorShape({records, options_.height, options_.width, 3}), &pixels));
    OP_REQUIRES_OK(context, context->allocate_output(1, TensorShape({records}), &problems));
    DecodeAll(context, contents, boxes, flips, pixels, problems);
  }

 private:
  void DecodeAll(OpKernelContext* context, const Tensor& contents, const Tensor& boxes, const Tensor& flips,
                 Tensor* pixels, Tensor* problems) const {
    const auto from = contents.vec<tstring>();
    const int32_t* box = boxes.flat<int32_t>().data();
    const bool* flip = flips.flat<bool>().data();
    uint8_t* to = pixels->flat<uint8_t>().data();
    auto wrong = problems->vec<tstring>();
    const size_t bytes = static_cast<size_t>(options_.height) * options_.width * 3;
    const auto decode = [&](int64_t begin, int64_t end) {
      static thread_local Scratch scratch;
      for (int64_t i = begin; i < end; ++i) {
        const int32_t* b = box + 4 * i;
        wrong(i) = DecodeCropResize(BytesOf(from(i)), {b[0], b[1], b[2], b[3]}, flip[i], options_, &scratch,
                                    to + bytes * i);
        scratch.Relax();
        if (!wrong(i).empty()) std::memset(to + bytes * i, 0, bytes);  // never uninitialised memory
      }
    };
    const auto& workers = *context->device()->tensorflow_cpu_worker_threads();
    tensorflow::Shard(workers.num_threads, workers.workers, contents.dim_size(0), kCyclesPerDecode, decode);
  }

  Options options_ = {};
  int nice_ = 0;
};
REGISTER_KERNEL_BUILDER(Name("PenstockDecodeCropResize").Device(tensorflow::DEVICE_CPU), DecodeBatch);

}  // namespace
}  // namespace penstock
