#include "backends/cuda/products/batched_product.h"

#include <algorithm>
#include <limits>

#include "backends/cuda/launch_types.h"
#include "backends/cuda/movement/strided_copy.h"
#include "backends/cuda/products/product_launch.h"

namespace tessera::backends::cuda {
namespace {

// The right operands as the kernels want them: the last two axes exchanged.
CopyLayout transposed_layout(const Shape& b) {
  CopyLayout layout;
  layout.shape = b;
  layout.x_strides = dense_strides(b);
  std::swap(layout.shape[b.size() - 1], layout.shape[b.size() - 2]);
  std::swap(layout.x_strides[b.size() - 1], layout.x_strides[b.size() - 2]);
  layout.y_strides = dense_strides(layout.shape);
  return layout;
}

// The number of the operand's matrix that belongs to each matrix of the product.
std::vector<std::int64_t> matrices_of(const Shape& product, const Shape& operand) {
  const Shape batch(product.begin(), product.end() - 2);
  const std::size_t missing = product.size() - operand.size();
  std::vector<std::int64_t> strides(batch.size(), 0);
  std::int64_t stride = 1;
  for (std::size_t axis = batch.size(); axis-- > missing;) {
    if (operand[axis - missing] != 1) strides[axis] = stride;
    stride *= operand[axis - missing];
  }
  std::vector<std::int64_t> matrices(static_cast<std::size_t>(element_count(batch)));
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    for (std::size_t axis = batch.size(); axis-- > 0;) {
      matrices[i] += rest % batch[axis] * strides[axis];
      rest /= batch[axis];
    }
  }
  return matrices;
}

// More products than these are many launches for little work each.
constexpr std::int64_t kMostMatrices = 4096;

std::string reject(const ops::NodeView& view, const DeviceProperties& device) {
  const ops::TensorType &a = view.input(0), &b = view.input(1), &y = view.output(0);
  if (suffix_of(a.dtype).empty()) return "the kernel multiplies f32, f16 and bf16 alone";
  if (b.dtype != a.dtype || y.dtype != a.dtype) return "the kernel takes operands of one type alone";
  if (a.shape.size() < 2 || b.shape.size() < 2) return "the kernel multiplies matrices alone";
  const std::int64_t rows = y.shape[y.shape.size() - 2], columns = y.shape.back(), depth = a.shape.back();
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  if (rows > 65535 * 64 || columns > kMost || depth > kMost) return "the product is larger than a grid of the kernel";
  if (y.elements() == 0 || depth == 0) return "there is nothing to multiply";
  if (y.elements() / (rows * columns) > kMostMatrices)
    return fmt::format("the kernel multiplies at most {} matrices", kMostMatrices);
  if (!CopyLaunch::make(b.dtype, transposed_layout(b.shape))) return "the right operand has too many axes";
  if (std::string why = reason_without_image(copy_kernel_name(b.dtype), device); !why.empty()) return why;
  return choose_rung(a.dtype, depth, device) ? "" : reason_without_rung(a.dtype, device);
}

class BatchedProductKernel final : public Kernel {
 public:
  BatchedProductKernel(const ops::NodeView& view, const DeviceProperties& device)
      : rung_(*choose_rung(view.input(0).dtype, view.input(0).shape.back(), device)),
        transpose_(*CopyLaunch::make(view.input(1).dtype, transposed_layout(view.input(1).shape))),
        transposed_bytes_(view.input(1).bytes()),
        element_bytes_(bits_of(view.input(0).dtype) / 8),
        a_matrices_(matrices_of(view.output(0).shape, view.input(0).shape)),
        b_matrices_(matrices_of(view.output(0).shape, view.input(1).shape)) {
    const Shape& y = view.output(0).shape;
    parameters_.rows = static_cast<int>(y[y.size() - 2]);
    parameters_.columns = static_cast<int>(y.back());
    parameters_.depth = static_cast<int>(view.input(0).shape.back());
    parameters_.a_stride = parameters_.b_stride = parameters_.depth;
    parameters_.d_stride = parameters_.columns;
    parameters_.splits = 1;
  }
  std::int64_t scratch_bytes() const override { return transposed_bytes_; }
  void run(KernelContext& context) const override {
    CudaStream& stream = stream_of(context);
    transpose_.launch(stream, context.input(1).raw(), context.scratch());
    const auto at = [&](const void* base, std::int64_t matrix, std::int64_t rows, std::int64_t columns) {
      return static_cast<const std::byte*>(base) + matrix * rows * columns * element_bytes_;
    };
    for (std::size_t i = 0; i < a_matrices_.size(); ++i) {
      tessera::cuda::ProductParameters p = parameters_;
      p.a = at(context.input(0).raw(), a_matrices_[i], p.rows, p.depth);
      p.b = at(context.scratch(), b_matrices_[i], p.columns, p.depth);
      p.d = const_cast<std::byte*>(at(context.output(0).raw(), static_cast<std::int64_t>(i), p.rows, p.columns));
      launch_product(stream, rung_, p);
    }
  }

 private:
  const ProductRung rung_;
  const CopyLaunch transpose_;
  const std::int64_t transposed_bytes_, element_bytes_;
  const std::vector<std::int64_t> a_matrices_, b_matrices_;
  tessera::cuda::ProductParameters parameters_{};
};

KernelPointer create(const ops::NodeView& view, WeightStore&, const DeviceProperties& device) {
  return std::make_unique<BatchedProductKernel>(view, device);
}

}  // namespace

KernelEntry batched_product_entry() {
  return {.op = "MatMul", .name = "cuda_batched_product", .reject_on = reject, .create_on = create};
}

}  // namespace tessera::backends::cuda
