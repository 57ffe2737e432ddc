#include "ops/pooling/pooling.h"

#include "ops/convolutions/window_geometry.h"
#include "ops/core/gradient.h"
#include "ops/core/signatures.h"
#include "ops/core/text_of.h"
#include "ops/pooling/max_pool_gradient.h"
#include "ops/pooling/pooling_gradient.h"

namespace tessera::ops {
namespace {

constexpr TypeSet kMaxTypes = types::floats | TypeSet{DType::i8, DType::u8};

std::vector<AttributeSpec> with(std::vector<AttributeSpec> specs, std::initializer_list<AttributeSpec> more) {
  specs.insert(specs.end(), more.begin(), more.end());
  return specs;
}

void infer_pooling(InferContext& context) {
  if (context.op().name == "LpPool") {
    context.check(context.integer("p") >= 1, "p is {}, expected at least 1", context.integer("p"));
  }
  const std::optional<ir::Dims> dims = pooled_dims(context);
  if (!dims) {
    context.set_output_unknown_rank(0, context.dtype(0));
    context.set_output_unknown_rank(1, DType::i64);
    return;
  }
  context.set_output(0, context.dtype(0), *dims);
  context.set_output(1, DType::i64, *dims);
}

// Infers the size that pooling with the same attributes would have reduced to X's, or output_shape if given.
void infer_max_unpool(InferContext& context) {
  const ir::Dims* x = context.dims(0);
  const ir::Dims* indices = context.dims(1);
  if (x == nullptr) return context.set_output_unknown_rank(0, context.dtype(0));
  context.check(x->size() >= 3, "input {} has rank {}, expected [N, C, spatial...]", text_of(*x), x->size());
  bool same = indices == nullptr || indices->size() == x->size();
  for (std::size_t i = 0; same && indices != nullptr && i < x->size(); ++i) same = (*indices)[i].may_equal((*x)[i]);
  context.check(same, "indices have shape {}, but the data {}", same ? "" : to_string(*indices), text_of(*x));
  const std::vector<std::int64_t> no_weights(x->size() - 2, -1);
  const WindowAttributes attributes = read_window_attributes(context, no_weights);
  ir::Dims y{(*x)[0], (*x)[1]};
  const bool asked = context.has_input(2);
  for (std::size_t i = 0; i < attributes.rank(); ++i) {
    const ir::Dim& size = (*x)[i + 2];
    y.push_back(!asked && size.is_known() ? ir::Dim(unpooled_size(attributes, i, size.value())) : ir::Dim());
  }
  if (const auto shape = context.constant_integers(2)) {
    context.check(shape->size() == x->size(), "output_shape has {} entries, expected {}", shape->size(), x->size());
    for (std::size_t i = 0; i < shape->size(); ++i) {
      context.check((*shape)[i] >= 0, "output_shape has the entry {}", (*shape)[i]);
      context.check(i >= 2 || y[i].may_equal((*shape)[i]), "output_shape {} does not keep batch and channels of {}",
                    text_of(*shape), text_of(*x));
    }
    y = ir::to_dims(*shape);
  }
  context.set_output(0, context.dtype(0), std::move(y));
}

void global_average_gradient(GradientContext& c) {
  c.set(0, (c.gradient() * (c.output().count() / c.input(0).count())).expand_like(c.input(0)));
}

// Equal largest elements share the gradient.
void global_max_gradient(GradientContext& c) {
  std::vector<std::int64_t> axes;
  for (std::int64_t i = 2; i < c.input(0).rank(); ++i) axes.push_back(i);
  const Term taken = c.input(0).equals(c.output()).cast(c.gradient().dtype());
  c.set(0, taken * (c.gradient() / taken.sum(axes)));
}

}  // namespace

std::vector<AttributeSpec> pooling_attributes() {
  return {{"kernel_shape", ir::AttributeKind::integers, std::nullopt, true},
          {"strides", ir::AttributeKind::integers},
          {"pads", ir::AttributeKind::integers},
          {"dilations", ir::AttributeKind::integers},
          {"auto_pad", ir::AttributeKind::text, ir::Attribute(std::string("NOTSET"))},
          integer_attribute("ceil_mode", 0)};
}

std::vector<AttributeSpec> average_pooling_attributes() {
  return with(pooling_attributes(), {integer_attribute("count_include_pad", 0)});
}

double pooling_operations(const NodeView& view) {
  double taps = 1;
  for (const std::int64_t size : view.integers("kernel_shape")) taps *= static_cast<double>(size);
  return taps * static_cast<double>(view.output(0).elements());
}

ir::Dims pooled_dims(const InferContext& context, const ir::Dims& x) {
  context.check(x.size() >= 3, "input {} has rank {}, expected [N, C, spatial...]", text_of(x), x.size());
  const std::vector<std::int64_t> no_weights(x.size() - 2, -1);
  const WindowAttributes attributes = read_window_attributes(context, no_weights);
  ir::Dims y{x[0], x[1]};
  for (std::size_t i = 0; i < attributes.rank(); ++i) y.push_back(window_output_dim(attributes, i, x[i + 2]));
  return y;
}

std::optional<ir::Dims> pooled_dims(const InferContext& context) {
  const ir::Dims* x = context.dims(0);
  if (x == nullptr) return std::nullopt;
  return pooled_dims(context, *x);
}

void infer_global_pooling(InferContext& context) {
  const ir::Dims* x = context.dims(0);
  if (x == nullptr) return context.set_output_unknown_rank(0, context.dtype(0));
  context.check(x->size() >= 2, "input {} has rank {}, expected [N, C, spatial...]", text_of(*x), x->size());
  ir::Dims y(x->size(), ir::Dim(1));
  y[0] = (*x)[0];
  y[1] = (*x)[1];
  context.set_output(0, context.dtype(0), std::move(y));
}

// The mean over the window's elements; padding counts as zeros with count_include_pad and is left out otherwise.
const OpDef average_pool{
    .name = "AveragePool",
    .since = 22,
    .inputs = {{"X", types::floats, "T"}},
    .outputs = {{"Y", types::floats, "T"}},
    .attributes = average_pooling_attributes(),
    .infer = infer_pooling,
    .operations = pooling_operations,
    .gradient = average_gradient,
};

// Indices count elements of the whole of X, row-major; with storage_order 1 the spatial axes are counted column-major.
const OpDef max_pool{
    .name = "MaxPool",
    .since = 22,
    .inputs = {{"X", kMaxTypes, "T"}},
    .outputs = {{"Y", kMaxTypes, "T"}, {"Indices", types::i64, "", optional}},
    .attributes = with(pooling_attributes(), {integer_attribute("storage_order", 0)}),
    .infer = infer_pooling,
    .operations = pooling_operations,
    .gradient = max_pool_backward,
};

// (sum |x|^p)^(1/p)
const OpDef lp_pool{
    .name = "LpPool",
    .since = 22,
    .inputs = {{"X", types::floats, "T"}},
    .outputs = {{"Y", types::floats, "T"}},
    .attributes = with(pooling_attributes(), {integer_attribute("p", 2)}),
    .infer = infer_pooling,
    .operations = pooling_operations,
    .gradient = lp_pool_gradient,
};

// Scatters X to the positions that MaxPool's indices name, zeros elsewhere.
const OpDef max_unpool{
    .name = "MaxUnpool",
    .since = 22,
    .inputs = {{"X", types::floats, "T1"}, {"I", types::i64, "T2"}, {"output_shape", types::i64, "T2", optional}},
    .outputs = {{"output", types::floats, "T1"}},
    .attributes = {{"kernel_shape", ir::AttributeKind::integers, std::nullopt, true},
                   {"strides", ir::AttributeKind::integers},
                   {"pads", ir::AttributeKind::integers}},
    .infer = infer_max_unpool,
    .gradient = max_unpool_gradient,
};

const OpDef global_average_pool{
    .name = "GlobalAveragePool",
    .since = 22,
    .inputs = {{"X", types::floats, "T"}},
    .outputs = {{"Y", types::floats, "T"}},
    .infer = infer_global_pooling,
    .operations = operations_per_input<1>,
    .gradient = global_average_gradient,
};

const OpDef global_max_pool{
    .name = "GlobalMaxPool",
    .since = 22,
    .inputs = {{"X", types::floats, "T"}},
    .outputs = {{"Y", types::floats, "T"}},
    .infer = infer_global_pooling,
    .operations = operations_per_input<1>,
    .gradient = global_max_gradient,
};

const OpDef global_lp_pool{
    .name = "GlobalLpPool",
    .since = 22,
    .inputs = {{"X", types::floats, "T"}},
    .outputs = {{"Y", types::floats, "T"}},
    .attributes = {integer_attribute("p", 2)},
    .infer =
        [](InferContext& context) {
          context.check(context.integer("p") >= 1, "p is {}, expected at least 1", context.integer("p"));
          infer_global_pooling(context);
        },
    .operations = operations_per_input<2>,
    .gradient = global_lp_gradient,
};

}  // namespace tessera::ops
