#include "ops/movement/scatter.h"

#include "base/error.h"
#include "ops/core/gradient.h"
#include "ops/core/shape_arguments.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

void check_same(const InferContext& context, const ir::Dim& a, const ir::Dim& b, std::string_view what,
                std::size_t axis) {
  context.check(a.may_equal(b), "{} has dimension {} at axis {}, expected {}", what, text_of(a), axis, text_of(b));
}

void check_rank(const InferContext& context, std::size_t i, std::int64_t rank) {
  const ir::Dims* dims = context.dims(i);
  context.check(dims == nullptr || static_cast<std::int64_t>(dims->size()) == rank, "{} has rank {}, expected {}",
                context.op().inputs[i].name, dims == nullptr ? 0 : dims->size(), rank);
}

void infer_scatter_elements(InferContext& context) {
  scatter_reduction(context);
  const ir::Dims* data = context.dims(0);
  const ir::Dims* indices = context.dims(1);
  const ir::Dims* updates = context.dims(2);
  if (data != nullptr) {
    const std::int64_t rank = static_cast<std::int64_t>(data->size());
    normalise_axis(context.integer("axis"), rank);
    check_rank(context, 1, rank);
    check_rank(context, 2, rank);
  }
  if (indices != nullptr && updates != nullptr) {
    check_rank(context, 2, static_cast<std::int64_t>(indices->size()));
    for (std::size_t i = 0; i < indices->size(); ++i) check_same(context, (*updates)[i], (*indices)[i], "updates", i);
  }
  context.set_output(0, context.input(0));
}

void infer_scatter_nd(InferContext& context) {
  scatter_reduction(context);
  const ir::Dims* data = context.dims(0);
  const ir::Dims* indices = context.dims(1);
  const ir::Dims* updates = context.dims(2);
  context.set_output(0, context.input(0));
  if (data == nullptr || indices == nullptr) return;
  context.check(!data->empty() && !indices->empty(), "data {} and indices {} must have at least one axis",
                text_of(*data), text_of(*indices));
  const ir::Dim depth = indices->back();
  if (!depth.is_known()) return;
  context.check(depth.value() >= 1 && depth.value() <= static_cast<std::int64_t>(data->size()),
                "an index has {} parts, but data is {}", depth.value(), text_of(*data));
  if (updates == nullptr) return;
  ir::Dims wanted(indices->begin(), indices->end() - 1);
  wanted.insert(wanted.end(), data->begin() + depth.value(), data->end());
  check_rank(context, 2, static_cast<std::int64_t>(wanted.size()));
  for (std::size_t i = 0; i < wanted.size(); ++i) check_same(context, (*updates)[i], wanted[i], "updates", i);
}

void infer_tensor_scatter(InferContext& context) {
  const std::string& mode = context.text("mode");
  context.check(mode == "linear" || mode == "circular", "mode is '{}', expected linear or circular", mode);
  const ir::Dims* cache = context.dims(0);
  const ir::Dims* update = context.dims(1);
  context.set_output(0, context.input(0));
  if (cache == nullptr) return;
  const std::int64_t rank = static_cast<std::int64_t>(cache->size());
  const std::int64_t axis = normalise_axis(context.integer("axis"), rank);
  context.check(axis != 0, "axis {} is the batch axis", context.integer("axis"));
  check_rank(context, 1, rank);
  for (std::size_t i = 0; update != nullptr && i < cache->size(); ++i) {
    if (static_cast<std::int64_t>(i) != axis) check_same(context, (*update)[i], (*cache)[i], "update", i);
    else
      context.check(!(*cache)[i].is_known() || !(*update)[i].is_known() || (*update)[i].value() <= (*cache)[i].value(),
                    "update {} is longer than past_cache {} at axis {}", text_of(*update), text_of(*cache), i);
  }
  if (!context.has_input(2)) return;
  const auto count = known_length(context, 2);
  context.check(!count || (*cache)[0].may_equal(*count), "{} write_indices for a batch of {}", count.value_or(0),
                text_of((*cache)[0]));
}

// Each update is combined with one old element; without a reduction nothing is computed.
double scatter_operations(const NodeView& view) {
  return scatter_reduction(view) == ScatterReduction::none ? 0 : static_cast<double>(view.input(2).elements());
}

// Updates get the gradient at their positions; data get the gradient except where they were replaced.
void scatter_gradient(GradientContext& c, const std::string& scatter, const std::string& gather,
                      const ir::Attributes& axis) {
  const ScatterReduction reduction = scatter_reduction(c);
  require(reduction == ScatterReduction::none || reduction == ScatterReduction::add, ErrorKind::unsupported,
          "reduction {}", c.text("reduction"));
  const Term g = c.gradient();
  if (c.wants(0))
    c.set(0, reduction == ScatterReduction::add ? g : g.combine(scatter, {c.input(1), c.input(2).zeros()}, axis));
  if (c.wants(2)) c.set(2, g.combine(gather, {c.input(1)}, axis).of_shape(c.input(2)));
}

// Positions that were written have a zero gradient for the past; their gradients are those of the update.
void tensor_scatter_gradient(GradientContext& c) {
  const Term g = c.gradient(), update = c.input(1);
  if (c.wants(0)) {
    std::vector<Term> operands{update.zeros()};
    if (c.has_input(2)) operands.push_back(c.input(2));
    c.set(0, g.combine("TensorScatter", operands, c.node().attributes));
  }
  if (!c.wants(1)) return;
  const std::int64_t rank = g.rank(), axis = normalise_axis(c.integer("axis"), rank);
  // 0, 1 … along the axis, then the position of each element of the update.
  const Term zeros = update.integers({0}).expand(update.shape()).of_shape(update);
  Term position = (zeros + 1).combine("CumSum", {update.integers({axis})}, {{"exclusive", std::int64_t{1}}});
  if (c.has_input(2)) {
    std::vector<std::int64_t> behind_batch = all_axes(rank);
    behind_batch.erase(behind_batch.begin());
    position = position + c.input(2).unsqueeze(behind_batch);
  }
  if (c.text("mode") == "circular") position = position.combine("Mod", {g.size_of(axis)});
  c.set(1, g.combine("GatherElements", {position}, {{"axis", axis}}).of_shape(update));
}

}  // namespace

ScatterReduction scatter_reduction(const AttributeReader& reader) {
  const std::string& name = reader.text("reduction");
  if (name == "none") return ScatterReduction::none;
  if (name == "add") return ScatterReduction::add;
  if (name == "mul") return ScatterReduction::mul;
  if (name == "max") return ScatterReduction::max;
  require(name == "min", ErrorKind::invalid_model, "reduction is '{}', expected none, add, mul, max or min", name);
  return ScatterReduction::min;
}

const OpDef scatter_elements{
    .name = "ScatterElements",
    .since = 18,
    .inputs = {{"data", types::all, "T"}, {"indices", types::index}, {"updates", types::all, "T"}},
    .outputs = {{"output", types::all, "T"}},
    .attributes = {{"axis", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})},
                   {"reduction", ir::AttributeKind::text, ir::Attribute(std::string("none"))}},
    .infer = infer_scatter_elements,
    .operations = scatter_operations,
    .gradient =
        [](GradientContext& c) {
          scatter_gradient(c, "ScatterElements", "GatherElements", {{"axis", c.integer("axis")}});
        },
    .traits = {Trait::moves},
};

const OpDef scatter_nd{
    .name = "ScatterND",
    .since = 18,
    .inputs = {{"data", types::all, "T"}, {"indices", types::i64}, {"updates", types::all, "T"}},
    .outputs = {{"output", types::all, "T"}},
    .attributes = {{"reduction", ir::AttributeKind::text, ir::Attribute(std::string("none"))}},
    .infer = infer_scatter_nd,
    .operations = scatter_operations,
    .gradient = [](GradientContext& c) { scatter_gradient(c, "ScatterND", "GatherND", {}); },
    .traits = {Trait::moves},
};

const OpDef tensor_scatter{
    .name = "TensorScatter",
    .since = 24,
    .inputs = {{"past_cache", types::all, "T"},
               {"update", types::all, "T"},
               {"write_indices", types::i64, "", optional}},
    .outputs = {{"present_cache", types::all, "T"}},
    .attributes = {{"axis", ir::AttributeKind::integer, ir::Attribute(std::int64_t{-2})},
                   {"mode", ir::AttributeKind::text, ir::Attribute(std::string("linear"))}},
    .infer = infer_tensor_scatter,
    .gradient = tensor_scatter_gradient,
    .traits = {Trait::moves},
};

}  // namespace tessera::ops
