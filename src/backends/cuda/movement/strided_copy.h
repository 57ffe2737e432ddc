// Launches of copies between two layouts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/cuda_stream.h"
#include "backends/cuda/kernels/movement/strided_copy_parameters.h"
#include "tessera/tensor.h"

namespace tessera::backends::cuda {

// Elements of `shape` in order, with the strides that a copy reads and writes them by, in elements.
struct CopyLayout {
  Shape shape;
  std::vector<std::int64_t> x_strides, y_strides;
  std::int64_t x_offset = 0, y_offset = 0;
};

// Strides of a dense tensor, row-major.
std::vector<std::int64_t> dense_strides(const Shape& shape);

// "strided_copy_32"; "" for types whose elements are no whole bytes, or longer than eight.
std::string copy_kernel_name(DType type);
// One launch; nothing where the layout has more axes than the kernels, after neighbours that both sides pass through
// without a jump are joined.
class CopyLaunch {
 public:
  static std::optional<CopyLaunch> make(DType type, const CopyLayout& layout);
  void launch(CudaStream& stream, const void* x, void* y) const;

 private:
  std::string kernel_;
  std::int64_t x_offset_bytes_ = 0, y_offset_bytes_ = 0;
  tessera::cuda::CopyParameters parameters_{};
};

}  // namespace tessera::backends::cuda
