// AppendRows: the rows of a step are rounded, a head at a time, and written to their places.
#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "backends/cpu/attention/attention_rows.h"
#include "backends/cpu/attention/cached_row.h"
#include "backends/cpu/attention/kernels.h"
#include "ops/attention/paged_cache.h"
#include "tessera/half.h"

namespace tessera::backends::cpu {
namespace {

void copy_unless_same(const Tensor& from, Tensor& to) {
  if (to.raw() != from.raw()) std::memcpy(to.mutable_raw(), from.raw(), static_cast<std::size_t>(from.bytes()));
}

// Writes a head of a row to a line of the cache, and its scale if there are scales.
void write_line(std::span<const float> row, std::int64_t line, Tensor& cache, Tensor* scales) {
  const auto size = static_cast<std::int64_t>(row.size());
  if (cache.dtype() == DType::f32) {
    std::ranges::copy(row, cache.mutable_data<float>() + line * size);
  } else if (cache.dtype() == DType::f16) {
    attention_rows().to_f16(row.data(), size, &cache.mutable_data<f16_t>()[line * size].bits);
  } else {
    const float scale = round_to_bytes(row, cache.mutable_data<std::int8_t>() + line * size);
    if (scales != nullptr) scales->mutable_data<float>()[line] = scale;
  }
}

}  // namespace

void append_rows(KernelContext& context) {
  const Tensor &cache = context.input(ops::kAppendCache), &rows = context.input(ops::kAppendRows);
  const ops::PageTable table(context.input(ops::kAppendPages), cache.shape());
  const std::int64_t heads = cache.shape()[1], page_rows = cache.shape()[2], size = cache.shape()[3];
  const std::int64_t* const sequence = context.input(ops::kAppendSequence).data<std::int64_t>();
  const std::int64_t* const positions = context.input(ops::kAppendPositions).data<std::int64_t>();
  // All places are found before anything is written, which may be in place.
  std::vector<ops::CachePlace> places(static_cast<std::size_t>(rows.shape()[0]), ops::CachePlace{-1, -1});
  for (std::size_t t = 0; t < places.size(); ++t)
    if (sequence[t] >= 0) places[t] = table.place(sequence[t], positions[t]);
  Tensor& to = context.output(0);
  copy_unless_same(cache, to);
  Tensor* const scales =
      context.has_input(ops::kAppendScales) && context.wants_output(1) ? &context.output(1) : nullptr;
  if (scales != nullptr) copy_unless_same(context.input(ops::kAppendScales), *scales);
  const std::span<const float> from = rows.values<float>();
  for (std::size_t t = 0; t < places.size(); ++t) {
    if (places[t].page < 0) continue;
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t line = (places[t].page * heads + h) * page_rows + places[t].row;
      const auto at = static_cast<std::size_t>((static_cast<std::int64_t>(t) * heads + h) * size);
      write_line(from.subspan(at, static_cast<std::size_t>(size)), line, to, scales);
    }
  }
}

}  // namespace tessera::backends::cpu
