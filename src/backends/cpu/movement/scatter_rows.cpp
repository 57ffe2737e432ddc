// tessera::ScatterRows of float32. The result is cut into blocks of rows; each block is cleared and adds the rows that
// belong to it, in the order of the indices. So sums are equal bit for bit however blocks are distributed to threads,
// and a block is in the cache when rows are added to it.
#include "ops/movement/scatter_rows.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/movement/kernels.h"
#include "backends/cpu/movement/movement.h"
#include "backends/cpu/movement/scatter_rows.h"
#include "base/numbers/checked.h"
#include "ops/core/shape_arguments.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/movement/scatter_rows.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void add_scattered_row(const float* from, float* to, std::int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::Add(hn::LoadU(d, to + i), hn::LoadU(d, from + i)), d, to + i);
  if (i == count) return;
  const auto rest = hn::FirstN(d, static_cast<std::size_t>(count - i));
  hn::BlendedStore(hn::Add(hn::MaskedLoad(rest, d, to + i), hn::MaskedLoad(rest, d, from + i)), rest, d, to + i);
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(add_scattered_row);

constexpr std::int64_t kBlockElements = 64 * 1024;
constexpr std::int64_t kGrain = 16 * 1024;  // elements per chunk
constexpr std::int64_t kMostBlocks = 64;    // of a slab; each scans all indices

// Computes the rows [first, end) of one slab of the result.
template <typename Index>
void scatter_block(const ops::ScatterRowsShape& shape, const float* rows, const Index* indices, float* slab,
                   std::int64_t first, std::int64_t end) {
  std::memset(slab + first * shape.inner, 0, static_cast<std::size_t>((end - first) * shape.inner) * sizeof(float));
  if (shape.inner == 1) {
    for (std::int64_t k = 0; k < shape.count; ++k) {
      const std::int64_t to = checked_index(indices[k], shape.size);
      if (to >= first && to < end) slab[to] += rows[k];
    }
    return;
  }
  for (std::int64_t k = 0; k < shape.count; ++k) {
    const std::int64_t to = checked_index(indices[k], shape.size);
    if (to >= first && to < end)
      HWY_DYNAMIC_DISPATCH(add_scattered_row)(rows + k * shape.inner, slab + to * shape.inner, shape.inner);
  }
}

template <typename Index>
void scatter(const KernelContext& context, const ops::ScatterRowsShape& shape, const float* rows, const Index* indices,
             float* result) {
  if (shape.size == 0) {
    for (std::int64_t k = 0; k < shape.count; ++k) checked_index(indices[k], shape.size);
    return;
  }
  const std::int64_t blocks =
      std::clamp<std::int64_t>(shape.size * shape.inner / kBlockElements, 1, std::min(kMostBlocks, shape.size));
  const std::int64_t block_rows = base::ceil_divide(shape.size, blocks);
  const std::int64_t work = block_rows * shape.inner + shape.count;
  context.parallel_for(shape.outer * blocks, std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, work)),
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t i = begin; i < end; ++i) {
                           const std::int64_t slab = i / blocks, first = std::min(i % blocks * block_rows, shape.size);
                           scatter_block(shape, rows + slab * shape.count * shape.inner, indices,
                                         result + slab * shape.size * shape.inner, first,
                                         std::min(first + block_rows, shape.size));
                         }
                       });
}

}  // namespace

void add_row(const float* from, float* to, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(add_scattered_row)(from, to, count);
}

std::string reject_scatter_rows(const ops::NodeView& view) {
  return view.input(0).dtype == DType::f32 ? "" : "takes f32";
}

void scatter_rows(KernelContext& context) {
  const Tensor &rows = context.input(0), &indices = context.input(1);
  const std::int64_t size = ops::single_integer(context.input(2), "size");
  const ops::ScatterRowsShape shape = ops::scatter_rows_shape(context, rows.shape(), indices.shape(), size);
  Tensor& output = context.allocate_output(0, ops::scatter_rows_result(context, rows.shape(), indices.shape(), size));
  float* result = output.mutable_data<float>();
  if (indices.dtype() == DType::i64) scatter(context, shape, rows.data<float>(), indices.data<std::int64_t>(), result);
  else scatter(context, shape, rows.data<float>(), indices.data<std::int32_t>(), result);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
