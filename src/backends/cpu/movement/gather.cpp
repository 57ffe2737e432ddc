#include "ops/movement/gather.h"

#include <cstring>
#include <limits>
#include <vector>

#include "backends/cpu/movement/kernels.h"
#include "backends/cpu/movement/movement.h"
#include "base/error.h"

namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kGatherGrainBytes = 64 * 1024;
constexpr std::int64_t kFarRowBytes = 1024;      // bytes copied in the time of fetching a row of a large table
constexpr std::int64_t kNearBytes = 256 * 1024;  // of data that a cache holds
constexpr std::int64_t kMostKnown = 16 * 1024;   // indices that a kernel keeps

// Data as [outer, length, inner bytes], indices as [count]; the result is [outer, count, inner bytes].
struct GatherShape {
  std::int64_t outer = 1, length = 1, inner_bytes = 1, count = 1;
};

// Copies the rows [begin, end) of the result, of which there are outer * count.
template <typename Index, typename CopyRow>
void gather_rows(const GatherShape& shape, const std::byte* data, const Index* indices, std::byte* target,
                 std::int64_t begin, std::int64_t end, CopyRow copy_row) {
  std::int64_t i = begin % shape.count;
  const std::byte* slab = data + begin / shape.count * shape.length * shape.inner_bytes;
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t from = checked_index(indices[i], shape.length);
    copy_row(target + row * shape.inner_bytes, slab + from * shape.inner_bytes);
    if (++i == shape.count) {
      i = 0;
      slab += shape.length * shape.inner_bytes;
    }
  }
}

template <typename Index>
void gather(KernelContext& context, const GatherShape& shape) {
  const auto* data = static_cast<const std::byte*>(context.input(0).raw());
  const Index* indices = context.input(1).data<Index>();
  auto* target = static_cast<std::byte*>(context.output(0).mutable_raw());
  const std::int64_t extra =
      shape.length > kNearBytes / std::max<std::int64_t>(1, shape.inner_bytes) ? kFarRowBytes : 0;
  const std::int64_t grain =
      std::max<std::int64_t>(1, kGatherGrainBytes / (std::max<std::int64_t>(8, shape.inner_bytes) + extra));
  context.parallel_for(shape.outer * shape.count, grain, [&](std::int64_t begin, std::int64_t end) {
    const auto rows = [&](auto copy_row) { gather_rows(shape, data, indices, target, begin, end, copy_row); };
    if (shape.inner_bytes == 4) return rows([](std::byte* to, const std::byte* from) { std::memcpy(to, from, 4); });
    if (shape.inner_bytes == 8) return rows([](std::byte* to, const std::byte* from) { std::memcpy(to, from, 8); });
    rows([&](std::byte* to, const std::byte* from) {
      std::memcpy(to, from, static_cast<std::size_t>(shape.inner_bytes));
    });
  });
}

// As above, for constant indices and rows of one element: `offsets` in elements of data, within bounds.
template <typename T>
void gather_known(KernelContext& context, const GatherShape& shape, const std::vector<std::int32_t>& offsets) {
  const auto* data = static_cast<const T*>(context.input(0).raw());
  auto* target = static_cast<T*>(context.output(0).mutable_raw());
  context.parallel_for(shape.outer, std::max<std::int64_t>(1, kGatherGrainBytes / 8 / shape.count),
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t line = begin; line < end; ++line) {
                           const T* from = data + line * shape.length;
                           T* to = target + line * shape.count;
                           for (std::int64_t i = 0; i < shape.count; ++i)
                             to[i] = from[offsets[static_cast<std::size_t>(i)]];
                         }
                       });
}

template <typename Index>
std::vector<std::int32_t> offsets_of(const Tensor& indices, std::int64_t length) {
  std::vector<std::int32_t> offsets;
  for (const Index index : indices.values<Index>()) {
    if (index < -length || index >= length) return {};  // run() reports it
    offsets.push_back(static_cast<std::int32_t>(index < 0 ? index + length : index));
  }
  return offsets;
}

class GatherKernel final : public Kernel {
 public:
  explicit GatherKernel(const ops::NodeView& view) : wide_(view.input(1).dtype == DType::i64) {
    const Shape& data = view.input(0).shape;
    const auto axis =
        static_cast<std::size_t>(ops::normalise_axis(view.integer("axis"), static_cast<std::int64_t>(data.size())));
    for (std::size_t i = 0; i < axis; ++i) shape_.outer *= data[i];
    shape_.length = data[axis];
    shape_.inner_bytes =
        byte_count(view.input(0).dtype, Shape(data.begin() + static_cast<std::ptrdiff_t>(axis) + 1, data.end()));
    shape_.count = view.input(1).elements();
    const Tensor* indices = view.constant(1);
    const bool elements = shape_.inner_bytes == 4 || shape_.inner_bytes == 8;
    if (indices == nullptr || !indices->has_data() || !elements || shape_.outer < 2 || shape_.count > kMostKnown ||
        shape_.length > std::numeric_limits<std::int32_t>::max())
      return;
    offsets_ =
        wide_ ? offsets_of<std::int64_t>(*indices, shape_.length) : offsets_of<std::int32_t>(*indices, shape_.length);
  }

  void run(KernelContext& context) const override {
    if (shape_.count == 0) return;
    if (!offsets_.empty())
      return shape_.inner_bytes == 4 ? gather_known<std::uint32_t>(context, shape_, offsets_)
                                     : gather_known<std::uint64_t>(context, shape_, offsets_);
    if (wide_) gather<std::int64_t>(context, shape_);
    else gather<std::int32_t>(context, shape_);
  }

 private:
  GatherShape shape_;
  bool wide_;
  std::vector<std::int32_t> offsets_;  // of the element that each constant index takes from a line; empty: not constant
};

// Computes one line of GatherElements along the last axis of the indices: `step` is the stride of the data's gathered
// axis, `walk` the stride of its last axis (0 if they are the same axis).
template <typename T, typename Index>
void gather_line(const T* data, const Index* indices, T* target, std::int64_t count, std::int64_t bound,
                 std::int64_t step, std::int64_t walk) {
  for (std::int64_t i = 0; i < count; ++i) target[i] = data[checked_index(indices[i], bound) * step + i * walk];
}

template <typename T, typename Index>
void gather_elements(KernelContext& context) {
  const Tensor &data = context.input(0), &indices = context.input(1);
  const Shape& shape = indices.shape();
  const std::size_t rank = shape.size();
  if (indices.elements() == 0) return;
  const auto axis =
      static_cast<std::size_t>(ops::normalise_axis(context.integer("axis"), static_cast<std::int64_t>(rank)));
  const std::vector<std::int64_t> strides = row_major_strides(data.shape());
  for (std::size_t i = 0; i < rank; ++i) {
    require(i == axis || shape[i] <= data.shape()[i], ErrorKind::failed, "index {} is outside [{}, {})", shape[i] - 1,
            -data.shape()[i], data.shape()[i]);
  }
  const std::int64_t count = shape[rank - 1], lines = indices.elements() / count;
  const auto* from = static_cast<const T*>(data.raw());
  auto* to = static_cast<T*>(context.output(0).mutable_raw());
  const std::int64_t grain = std::max<std::int64_t>(1, 8192 / count);
  context.parallel_for(lines, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t line = begin; line < end; ++line) {
      std::int64_t offset = 0, rest = line;
      for (std::size_t i = rank - 1; i-- > 0;) {
        if (i != axis) offset += rest % shape[i] * strides[i];
        rest /= shape[i];
      }
      gather_line(from + offset, indices.data<Index>() + line * count, to + line * count, count, data.shape()[axis],
                  strides[axis], axis == rank - 1 ? 0 : 1);
    }
  });
}

template <typename T>
void gather_elements(KernelContext& context) {
  if (context.input(1).dtype() == DType::i64) gather_elements<T, std::int64_t>(context);
  else gather_elements<T, std::int32_t>(context);
}

}  // namespace

std::unique_ptr<Kernel> make_gather(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<GatherKernel>(view);
}

std::string reject_gather(const ops::NodeView& view) {
  return view.input(1).dtype == DType::undefined ? "wants indices of a known shape" : reject_unless_bytes(view);
}

std::string reject_gather_elements(const ops::NodeView& view) {
  const int bits = bits_of(view.input(0).dtype);
  if (bits < 8 || bits > 64) return "moves elements of 1, 2, 4 or 8 bytes";
  return view.input(0).shape.empty() ? "wants at least one axis" : "";
}

void gather_elements(KernelContext& context) {
  switch (bits_of(context.input(0).dtype())) {
    case 8:
      return gather_elements<std::uint8_t>(context);
    case 16:
      return gather_elements<std::uint16_t>(context);
    case 32:
      return gather_elements<std::uint32_t>(context);
    default:
      return gather_elements<std::uint64_t>(context);
  }
}

}  // namespace tessera::backends::cpu
