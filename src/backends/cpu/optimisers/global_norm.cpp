// The joint norm of all tensors of a list, in float32: squares are summed in double precision, piece by piece.
#include "ops/training/global_norm.h"

#include <cmath>

#include "backends/cpu/optimisers/kernels.h"
#include "backends/cpu/optimisers/tensor_pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/optimisers/global_norm.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/optimisers/squares.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {

double sum_of_squares(const float* x, std::int64_t count) {
  return squares::sum(x, count);
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(sum_of_squares);

std::vector<std::int64_t> counts_of(const ops::NodeView& view) {
  std::vector<std::int64_t> counts;
  for (std::size_t i = 1; i < view.input_count(); ++i) counts.push_back(view.input(i).elements());
  return counts;
}

class GlobalNormKernel final : public Kernel {
 public:
  explicit GlobalNormKernel(const ops::NodeView& view) : pieces_(counts_of(view)) {}

  std::int64_t scratch_bytes() const override { return static_cast<std::int64_t>(pieces_.size() * sizeof(double)); }

  void run(KernelContext& context) const override {
    auto* sums = reinterpret_cast<double*>(context.scratch());
    const auto sum = HWY_DYNAMIC_DISPATCH(sum_of_squares);
    pieces_.for_each(context, [&](std::size_t i) {
      const TensorPiece& piece = pieces_[i];
      sums[i] = sum(context.input(1 + piece.tensor).data<float>() + piece.begin, piece.end - piece.begin);
    });
    double total = 0;
    for (std::size_t i = 0; i < pieces_.size(); ++i) total += sums[i];
    const double scale = std::fabs(static_cast<double>(context.input(0).data<float>()[0]));
    context.output(0).mutable_data<float>()[0] = static_cast<float>(scale * std::sqrt(total));
  }

 private:
  TensorPieces pieces_;
};

}  // namespace

std::string reject_global_norm(const ops::NodeView& view) {
  return view.input(0).dtype == DType::f32 ? "" : "takes f32";
}

KernelPointer make_global_norm(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<GlobalNormKernel>(view);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
