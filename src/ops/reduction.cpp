#include "ops/reduction.h"

#include <algorithm>

#include "ops/shape_arguments.h"

namespace tessera::ops {
namespace {

constexpr TypeSet kReduceTypes = types::floats | TypeSet{DType::i32, DType::i64, DType::u32, DType::u64};
constexpr TypeSet kExtremeTypes = kReduceTypes | TypeSet{DType::i8, DType::u8, DType::boolean};

// What is certain when the axes themselves are not known: the rank, if their count tells it.
void infer_unknown_axes(InferContext& context, const ir::Dims& dims, bool keepdims) {
  const std::int64_t rank = static_cast<std::int64_t>(dims.size());
  const std::optional<std::int64_t> count = known_length(context, 1);
  if (keepdims) {
    context.set_output(0, context.dtype(0), ir::Dims(dims.size()));
  } else if (count && *count > 0) {
    context.check(*count <= rank, "{} axes of a tensor of rank {}", *count, rank);
    context.set_output(0, context.dtype(0), ir::Dims(static_cast<std::size_t>(rank - *count)));
  } else {
    context.set_output_unknown_rank(0, context.dtype(0));
  }
}

void infer_reduction(InferContext& context) {
  const ir::Dims* dims = context.dims(0);
  const bool keepdims = context.integer("keepdims") != 0, noop = context.integer("noop_with_empty_axes") != 0;
  std::optional<std::vector<std::int64_t>> axes = std::vector<std::int64_t>{};
  if (context.has_input(1)) {
    axes = context.constant_integers(1);
    if (!axes && known_length(context, 1) == 0) axes.emplace();
  }
  if (dims == nullptr) {
    if (!keepdims && axes && axes->empty() && !noop)
      context.set_output(0, context.dtype(0), ir::Dims{});
    else
      context.set_output_unknown_rank(0, context.dtype(0));
  } else if (!axes) {
    infer_unknown_axes(context, *dims, keepdims);
  } else {
    const auto reduced = reduction_axes(*axes, static_cast<std::int64_t>(dims->size()), noop);
    context.set_output(0, context.dtype(0), reduced_dims(*dims, reduced, keepdims));
  }
}

OpDef reduction(std::string_view name, int since, TypeSet types, double (*operations)(const NodeView&)) {
  return {.name = name,
          .since = since,
          .inputs = {{"data", types, "T"}, {"axes", types::i64, "", optional}},
          .outputs = {{"reduced", types, "T"}},
          .attributes = {{"keepdims", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})},
                         {"noop_with_empty_axes", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})}},
          .infer = infer_reduction,
          .operations = operations};
}

}  // namespace

std::vector<std::int64_t> reduction_axes(std::span<const std::int64_t> given, std::int64_t rank, bool noop_when_empty) {
  if (given.empty()) return noop_when_empty ? std::vector<std::int64_t>{} : all_axes(rank);
  std::vector<std::int64_t> axes = normalise_axes(given, rank);
  std::sort(axes.begin(), axes.end());
  return axes;
}

ir::Dims reduced_dims(const ir::Dims& dims, std::span<const std::int64_t> axes, bool keepdims) {
  ir::Dims result;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const bool reduced = std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(i)) != axes.end();
    if (!reduced)
      result.push_back(dims[i]);
    else if (keepdims)
      result.emplace_back(1);
  }
  return result;
}

const OpDef reduce_l1 = reduction("ReduceL1", 18, kReduceTypes, operations_per_input<2>);
const OpDef reduce_l2 = reduction("ReduceL2", 18, kReduceTypes, operations_per_input<2>);
const OpDef reduce_log_sum = reduction("ReduceLogSum", 18, kReduceTypes, operations_per_input<1>);
const OpDef reduce_log_sum_exp = reduction("ReduceLogSumExp", 18, kReduceTypes, operations_per_input<10>);
const OpDef reduce_max = reduction("ReduceMax", 20, kExtremeTypes, operations_per_input<1>);
const OpDef reduce_mean = reduction("ReduceMean", 18, kReduceTypes, operations_per_input<1>);
const OpDef reduce_min = reduction("ReduceMin", 20, kExtremeTypes, operations_per_input<1>);
const OpDef reduce_prod = reduction("ReduceProd", 18, kReduceTypes, operations_per_input<1>);
const OpDef reduce_sum = reduction("ReduceSum", 13, kReduceTypes, operations_per_input<1>);
const OpDef reduce_sum_square = reduction("ReduceSumSquare", 18, kReduceTypes, operations_per_input<2>);

}  // namespace tessera::ops
