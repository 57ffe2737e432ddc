#include "ops/attention/attention.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "backends/cuda/attention/attention.h"
#include "backends/cuda/kernels/attention/attention_parameters.h"
#include "backends/cuda/launch_types.h"
#include "backends/cuda/movement/strided_copy.h"

namespace tessera::backends::cuda {
namespace {

using tessera::cuda::AttentionParameters;
using tessera::cuda::EmptyRows;
using tessera::cuda::kAttentionHeadSize;
using tessera::cuda::kAttentionThreads;
using tessera::cuda::kAttentionWarps;
using tessera::cuda::ScoreTable;
using tessera::cuda::StoredType;

constexpr std::size_t kMask = 3, kPastKey = 4, kPastValue = 5, kValidKeys = 6;

std::optional<StoredType> table_type_of(DType type) {
  if (type == DType::f32) return StoredType::f32;
  if (type == DType::f16) return StoredType::f16;
  if (type == DType::bf16) return StoredType::bf16;
  return type == DType::boolean ? std::optional(StoredType::boolean) : std::nullopt;
}

ops::AttentionSizes sizes_of(const ops::NodeView& view) {
  return ops::attention_sizes(view, view.input(0).shape, view.input(1).shape, view.input(2).shape, nullptr);
}

std::string kernel_name(const ops::NodeView& view) {
  return fmt::format("attention_{}", suffix_of(view.input(0).dtype));
}

std::string reject(const ops::NodeView& view, const DeviceProperties& device) {
  const DType type = view.input(0).dtype;
  if (suffix_of(type).empty()) return "the kernel computes f32, f16 and bf16 alone";
  if (view.input(1).dtype != type || view.input(2).dtype != type) return "the kernel takes operands of one type alone";
  for (const std::size_t i : {kPastKey, kPastValue, kValidKeys}) {
    if (view.has_input(i)) return "the kernel takes no past and no number of valid keys";
  }
  for (std::size_t i = 1; i < view.output_count(); ++i) {
    if (view.wants_output(i)) return "the kernel has one output alone";
  }
  for (const std::size_t i : {kMask, ops::kAttentionReplacement, ops::kAttentionSecondMask}) {
    if (view.has_input(i) && !table_type_of(view.input(i).dtype))
      return fmt::format("the kernel takes no mask of {}", name_of(view.input(i).dtype));
  }
  const ops::AttentionSizes sizes = sizes_of(view);
  if (std::max(sizes.head_size, sizes.value_head_size) > kAttentionHeadSize)
    return fmt::format("the kernel takes heads of at most {} elements", kAttentionHeadSize);
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  if (sizes.query_length > kMost || sizes.new_length > kMost) return "the kernel counts positions in 32 bits";
  return reason_without_image(kernel_name(view), device);
}

AttentionParameters::Layout layout_of(bool packed, std::int64_t heads, std::int64_t length, std::int64_t size) {
  if (packed) return {heads * length * size, size, heads * size};
  return {heads * length * size, length * size, size};
}

// The table of the input, without its address.
ScoreTable table_of(const ops::NodeView& view, std::size_t input) {
  ScoreTable table{};
  if (!view.has_input(input)) return table;
  const Shape& given = view.input(input).shape;
  Shape shape(4 - given.size(), 1);
  shape.insert(shape.end(), given.begin(), given.end());
  const std::vector<std::int64_t> strides = dense_strides(shape);
  const auto stride = [&](std::size_t axis) { return shape[axis] == 1 ? 0 : strides[axis]; };
  table.batch_stride = stride(0);
  table.head_stride = stride(1);
  table.query_stride = stride(2);
  table.keys = static_cast<int>(shape[3]);
  table.type = *table_type_of(view.input(input).dtype);
  return table;
}

EmptyRows empty_rows_of(ops::NanRows rows) {
  if (rows == ops::NanRows::propagate) return EmptyRows::propagate;
  return rows == ops::NanRows::zeros ? EmptyRows::zeros : EmptyRows::zeros_for_no_key;
}

class AttentionKernel final : public Kernel {
 public:
  explicit AttentionKernel(const ops::NodeView& view) : kernel_(kernel_name(view)) {
    const ops::AttentionSizes sizes = sizes_of(view);
    AttentionParameters& p = parameters_;
    p.q_layout = layout_of(sizes.packed, sizes.query_heads, sizes.query_length, sizes.head_size);
    p.k_layout = layout_of(sizes.packed, sizes.kv_heads, sizes.new_length, sizes.head_size);
    p.v_layout = layout_of(sizes.packed, sizes.kv_heads, sizes.new_length, sizes.value_head_size);
    p.y_layout = layout_of(sizes.packed, sizes.query_heads, sizes.query_length, sizes.value_head_size);
    p.mask = table_of(view, kMask);
    p.replacement = table_of(view, ops::kAttentionReplacement);
    p.second_mask = table_of(view, ops::kAttentionSecondMask);
    p.rows = sizes.batch * sizes.query_heads * sizes.query_length;
    p.heads = static_cast<int>(sizes.query_heads);
    p.heads_per_kv = sizes.kv_heads == 0 ? 1 : static_cast<int>(sizes.query_heads / sizes.kv_heads);
    p.queries = static_cast<int>(sizes.query_length);
    p.keys = static_cast<int>(sizes.new_length);
    p.head_size = static_cast<int>(sizes.head_size);
    p.value_size = static_cast<int>(sizes.value_head_size);
    p.scale = sizes.scale;
    p.softcap = view.real("softcap");
    p.causal = view.integer("is_causal") != 0;
    const ops::NanRows rows = ops::nan_rows_of(view);
    p.skips_zeros = p.causal || rows == ops::NanRows::zeros_for_no_key;
    p.empty_rows = empty_rows_of(rows);
  }
  void run(KernelContext& context) const override {
    AttentionParameters p = parameters_;
    if (p.rows == 0 || p.value_size == 0) return;
    p.q = context.input(0).raw();
    p.k = context.input(1).raw();
    p.v = context.input(2).raw();
    p.y = context.output(0).mutable_raw();
    const auto address = [&](std::size_t i) { return context.has_input(i) ? context.input(i).raw() : nullptr; };
    p.mask.values = address(kMask);
    p.replacement.values = address(ops::kAttentionReplacement);
    p.second_mask.values = address(ops::kAttentionSecondMask);
    // Blocks beyond this many take their rows in turns.
    constexpr std::int64_t kMostBlocks = 65535;
    LaunchShape shape;
    shape.grid.x = static_cast<unsigned>(std::min<std::int64_t>(kMostBlocks, blocks_of(p.rows, kAttentionWarps)));
    shape.block.x = kAttentionThreads;
    stream_of(context).launch_with(kernel_, shape, p);
  }

 private:
  const std::string kernel_;
  AttentionParameters parameters_{};
};

KernelPointer create(const ops::NodeView& view, WeightStore&, const DeviceProperties&) {
  return std::make_unique<AttentionKernel>(view);
}

}  // namespace

std::span<const KernelEntry> attention_kernel_table() {
  static constexpr KernelEntry table[] = {
      {.op = "Attention", .name = "cuda_attention", .reject_on = reject, .create_on = create},
  };
  return table;
}

}  // namespace tessera::backends::cuda
