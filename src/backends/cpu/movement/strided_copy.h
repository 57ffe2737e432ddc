// Copies from a strided source to a dense target: the implementation of Transpose, Slice, Expand, Tile, DepthToSpace
// and similar operators. Elements are moved as bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/backend.h"

namespace tessera::backends::cpu {

// Whether elements of this type are whole bytes: 1, 2, 4, 8 or 16.
bool moves_as_bytes(DType type);

// target[i0, i1 …] = source[offset + i0 * stride0 + i1 * stride1 …] for every index of `dims`; the target is dense and
// row-major. Immutable; several threads may use it at once.
class StridedCopy {
 public:
  StridedCopy() = default;
  // `strides` and `offset` in elements of the source; strides may be 0 or negative.
  StridedCopy(DType type, const Shape& dims, const std::vector<std::int64_t>& strides, std::int64_t offset);

  // Source and target must not overlap.
  void run(const void* source, void* target, const KernelContext& context) const;

 private:
  struct Axis {
    std::int64_t count = 1, source = 0, target = 0;  // strides in elements
  };
  // Copies `count` elements along the innermost axis.
  using LineFunction = void (*)(const std::byte* source, std::byte* target, std::int64_t count, std::int64_t stride);
  // target[row * target_stride + column] = source[column * source_stride + row]
  using PanelFunction = void (*)(const std::byte* source, std::int64_t source_stride, std::byte* target,
                                 std::int64_t target_stride, std::int64_t rows, std::int64_t columns);
  template <typename T>
  void choose_functions(bool transposes);
  void run_items(const std::byte* source, std::byte* target, std::int64_t begin, std::int64_t end) const;

  std::int64_t element_bytes_ = 1, offset_ = 0;
  std::vector<Axis> outer_;  // iterated index by index, outermost first
  Axis line_;                // the innermost axis of the target
  Axis rows_;                // for panels: the axis along which the source is contiguous
  // The line (for panels, the rows) is cut into blocks; a work item is one block of one outer index.
  std::int64_t block_ = 1, blocks_ = 1, items_ = 0, grain_ = 1;
  LineFunction copy_line_ = nullptr;
  PanelFunction transpose_panel_ = nullptr;  // exactly one is set
};

}  // namespace tessera::backends::cpu
