// ScatterElements: copies the data, or works in place. Lines along the axis change different elements, so they are
// distributed to threads; along one line updates are applied in order, so that the last of equal indices wins and sums
// are equal bit for bit with any number of threads.
#include <algorithm>

#include "backends/cpu/movement/kernels.h"
#include "backends/cpu/movement/scatter.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kUpdatesAChunk = 8192;
constexpr std::int64_t kLeastColumns = 64;  // of a part of a row that a thread takes

// Indices as [outer, length, columns], where `length` is the axis. If the data's axes behind it are longer than those
// of the indices, not all columns are contiguous in the data: they form contiguous rows of `row` elements.
struct Lines {
  std::int64_t outer = 1, length = 1, columns = 1, row = 1;
  std::int64_t bound = 1, stride = 1;        // of the data along the axis
  std::vector<std::int64_t> sizes, strides;  // of indices and data: all axes but this one and the last
};

Lines lines_of(const Tensor& data, const Tensor& indices, std::size_t axis) {
  const std::vector<std::int64_t> strides = row_major_strides(data.shape());
  Lines lines;
  lines.length = indices.shape()[axis];
  lines.bound = data.shape()[axis];
  lines.stride = strides[axis];
  for (std::size_t i = 0; i < indices.shape().size(); ++i) {
    const std::int64_t size = indices.shape()[i];
    require(i == axis || size <= data.shape()[i], ErrorKind::failed, "index {} is outside [{}, {})", size - 1,
            -data.shape()[i], data.shape()[i]);
    if (i < axis) lines.outer *= size;
    if (i > axis) lines.columns *= size;
    if (i == axis) continue;
    if (i + 1 == indices.shape().size()) {
      lines.row = size;
      continue;
    }
    lines.sizes.push_back(size);
    lines.strides.push_back(strides[i]);
  }
  return lines;
}

// Returns the offset of a row's first column in the data. Rows are counted over all axes but this one and the last.
std::int64_t place_of_row(const Lines& lines, std::int64_t row) {
  std::int64_t place = 0;
  for (std::size_t i = lines.sizes.size(); i-- > 0;) {
    place += row % lines.sizes[i] * lines.strides[i];
    row /= lines.sizes[i];
  }
  return place;
}

template <typename Index, typename T, typename Joins>
void scatter_lines(KernelContext& context, const Lines& lines, const Index* indices, const T* updates, T* to,
                   const Joins& join) {
  const std::int64_t rows = lines.columns / lines.row, all_rows = lines.outer * rows;
  // Rows are split if there are fewer of them than threads.
  const std::int64_t parts = std::clamp<std::int64_t>(2 * context.resources().threads() / all_rows, 1,
                                                      std::max<std::int64_t>(lines.row / kLeastColumns, 1));
  const std::int64_t part = (lines.row + parts - 1) / parts;
  const std::int64_t grain = std::max<std::int64_t>(1, kUpdatesAChunk / (lines.length * part));
  context.parallel_for(all_rows * parts, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t piece = begin; piece < end; ++piece) {
      const std::int64_t row = piece / parts, first = piece % parts * part, last = std::min(lines.row, first + part);
      T* const there = to + place_of_row(lines, row);
      const std::int64_t here = (row / rows * lines.length * rows + row % rows) * lines.row;
      for (std::int64_t k = 0; k < lines.length; ++k) {
        const Index* index = indices + here + k * lines.columns;
        const T* update = updates + here + k * lines.columns;
        for (std::int64_t i = first; i < last; ++i) {
          T& value = there[checked_index(index[i], lines.bound) * lines.stride + i];
          value = join(value, update[i]);
        }
      }
    }
  });
}

}  // namespace

std::string reject_scatter_elements(const ops::NodeView& view) {
  return view.input(0).shape.empty() ? "wants at least one axis" : reject_unless_joined(view);
}

void scatter_elements(KernelContext& context) {
  const Tensor &data = context.input(0), &indices = context.input(1), &updates = context.input(2);
  require(indices.shape() == updates.shape() && indices.rank() == data.rank(), ErrorKind::invalid_model,
          "data {}, indices {} and updates {} do not fit together", to_string(data.shape()), to_string(indices.shape()),
          to_string(updates.shape()));
  copy_data(context);
  if (indices.elements() == 0) return;
  const Lines lines =
      lines_of(data, indices, static_cast<std::size_t>(ops::normalise_axis(context.integer("axis"), data.rank())));
  std::vector<std::byte> kept_updates, kept_indices;
  const void* from = apart_from_output(context, updates, kept_updates);
  const void* at = apart_from_output(context, indices, kept_indices);
  void* to = context.output(0).mutable_raw();
  with_join(ops::scatter_reduction(context), data.dtype(), [&]<typename T>(auto join, T) {
    const auto scatter = [&]<typename Index>(const Index* index) {
      scatter_lines(context, lines, index, static_cast<const T*>(from), static_cast<T*>(to), join);
    };
    if (indices.dtype() == DType::i64) scatter(static_cast<const std::int64_t*>(at));
    else scatter(static_cast<const std::int32_t*>(at));
  });
}

}  // namespace tessera::backends::cpu
