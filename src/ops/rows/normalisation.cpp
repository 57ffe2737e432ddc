#include "ops/rows/normalisation.h"

#include "base/error.h"
#include "ops/core/gradient.h"
#include "ops/core/signatures.h"
#include "ops/core/text_of.h"
#include "ops/rows/layer_normalisation_gradient.h"

namespace tessera::ops {
namespace {

const AttributeSpec epsilon_attribute{"epsilon", ir::AttributeKind::real, ir::Attribute(1e-5f)};
const AttributeSpec stash_type_attribute{"stash_type", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})};

// A 1-D operand with one element per channel of input 0.
void check_per_channel(const InferContext& context, std::size_t i) {
  if (!context.has_input(i) || context.dims(i) == nullptr) return;
  const ir::Dims& own = *context.dims(i);
  context.check(own.size() == 1, "input '{}' has shape {}, expected one value a channel", context.op().inputs[i].name,
                text_of(own));
  if (const ir::Dims* dims = context.dims(0)) {
    context.check(dims->size() >= 2, "input '{}' has rank {}, expected at least 2", context.op().inputs[0].name,
                  dims->size());
    context.check(own[0].may_equal((*dims)[1]), "input '{}' has {} values for {} channels", context.op().inputs[i].name,
                  text_of(own[0]), text_of((*dims)[1]));
  }
}

void infer_batch(InferContext& context) {
  for (std::size_t i = 1; i < 5; ++i) check_per_channel(context, i);
  context.check(context.integer("training_mode") != 0 || !(context.wants_output(1) || context.wants_output(2)),
                "running statistics are asked for outside training mode");
  context.set_output(0, context.input(0));
  context.set_output(1, context.input(3));
  context.set_output(2, context.input(4));
}

void infer_per_channel(InferContext& context) {
  check_per_channel(context, 1);
  check_per_channel(context, 2);
  if (context.op().name == "GroupNormalization") {
    const std::int64_t groups = context.integer("num_groups");
    context.check(groups > 0, "num_groups is {}", groups);
    if (const ir::Dims* dims = context.dims(0); dims != nullptr && dims->size() > 1 && (*dims)[1].is_known()) {
      context.check((*dims)[1].value() % groups == 0, "{} channels do not split into {} groups", (*dims)[1].value(),
                    groups);
    }
  }
  context.set_output(0, context.input(0));
}

void infer_trailing(InferContext& context) {
  const bool rms = context.op().name == "RMSNormalization";
  ir::ValueType type = context.input(0);
  if (rms) type.dtype = context.dtype(1);
  context.set_output(0, type);
  const std::int64_t stash_type = context.integer("stash_type");
  const bool is_float_type =
      stash_type > 0 && stash_type < kDTypeCount && types::floats.contains(static_cast<DType>(stash_type));
  context.check(is_float_type, "stash_type is {}, expected the number of a float type", stash_type);
  const DType stash = static_cast<DType>(stash_type);
  if (!type.dims) {
    context.set_output_unknown_rank(1, stash);
    context.set_output_unknown_rank(2, stash);
    return;
  }
  const std::int64_t axis = normalise_axis(context.integer("axis"), static_cast<std::int64_t>(type.dims->size()));
  for (std::size_t i = 1; i < context.input_count(); ++i) {
    if (!context.has_input(i) || context.dims(i) == nullptr) continue;
    const ir::Dims both = broadcast_dims(context, *type.dims, *context.dims(i));
    context.check(both.size() == type.dims->size(), "input '{}' has a higher rank than the tensor",
                  context.op().inputs[i].name);
    for (std::size_t d = 0; d < both.size(); ++d)
      context.check(both[d].may_equal((*type.dims)[d]), "input '{}' of shape {} does not broadcast to {}",
                    context.op().inputs[i].name, text_of(*context.dims(i)), text_of(*type.dims));
  }
  if (rms) return;
  ir::Dims statistics = *type.dims;
  for (std::size_t i = static_cast<std::size_t>(axis); i < statistics.size(); ++i) statistics[i] = 1;
  context.set_output(1, stash, statistics);
  context.set_output(2, stash, std::move(statistics));
}

void infer_lp(InferContext& context) {
  const std::int64_t p = context.integer("p");
  context.check(p == 1 || p == 2, "p is {}, expected 1 or 2", p);
  if (const ir::Dims* dims = context.dims(0))
    normalise_axis(context.integer("axis"), static_cast<std::int64_t>(dims->size()));
  infer_same_as_input(context);
}

void infer_mean_variance(InferContext& context) {
  if (const ir::Dims* dims = context.dims(0)) {
    for (std::int64_t axis : context.integers("axes")) normalise_axis(axis, static_cast<std::int64_t>(dims->size()));
  }
  infer_same_as_input(context);
}

void infer_lrn(InferContext& context) {
  context.check(context.integer("size") > 0, "size is {}", context.integer("size"));
  if (const ir::Dims* dims = context.dims(0))
    context.check(dims->size() >= 2, "input 'X' has rank {}, expected at least 2", dims->size());
  infer_same_as_input(context);
}

// Normalises x to mean 0 and variance 1 over some axes; `back` is the transpose.
struct Normalised {
  Normalised(Term x, std::vector<std::int64_t> over, double epsilon) : axes(std::move(over)), inverse(x), hat(x) {
    const Term centred = x - x.mean(axes);
    inverse = 1 / ((centred * centred).mean(axes) + epsilon).apply("Sqrt");
    hat = centred * inverse;
  }
  // The gradient with respect to x, given the gradient with respect to `hat`.
  Term back(Term g) const { return inverse * (g - g.mean(axes) - hat * (g * hat).mean(axes)); }

  std::vector<std::int64_t> axes;
  Term inverse, hat;
};

// The type of computation: f32 at least, as in the operators.
DType wide(DType dtype) {
  return dtype == DType::f64 ? DType::f64 : DType::f32;
}

void refuse_gradient_of(GradientContext& c, std::initializer_list<std::size_t> outputs) {
  for (std::size_t i : outputs)
    require(!c.has_gradient(i), ErrorKind::unsupported, "output '{}' is used", c.op().outputs[i].name);
}

std::vector<std::int64_t> trailing_axes(GradientContext& c) {
  const std::int64_t rank = c.input(0).rank();
  std::vector<std::int64_t> axes;
  for (std::int64_t i = normalise_axis(c.integer("axis"), rank); i < rank; ++i) axes.push_back(i);
  return axes;
}

void layer_gradient(GradientContext& c) {
  refuse_gradient_of(c, {1, 2});
  if (set_row_gradients(c)) return;
  const DType own = c.input(0).dtype(), type = wide(own);
  const Term g = c.gradient().cast(type);
  const Normalised normalised(c.input(0).cast(type), trailing_axes(c), c.real("epsilon"));
  if (c.wants(0)) c.set(0, normalised.back(g * c.input(1).cast(type)).cast(own));
  if (c.wants(1)) c.set(1, (g * normalised.hat).sum_to(c.input(1)).cast(own));
  if (c.wants(2)) c.set(2, g.sum_to(c.input(2)).cast(own));
}

void rms_gradient(GradientContext& c) {
  if (set_row_gradients(c)) return;
  const DType own = c.input(0).dtype(), type = wide(own);
  const std::vector<std::int64_t> axes = trailing_axes(c);
  const Term x = c.input(0).cast(type), g = c.gradient().cast(type);
  const Term inverse = 1 / ((x * x).mean(axes) + c.real("epsilon")).apply("Sqrt"), hat = x * inverse;
  const Term scaled = g * c.input(1).cast(type);
  if (c.wants(0)) c.set(0, (inverse * (scaled - hat * (scaled * hat).mean(axes))).cast(own));
  if (c.wants(1)) c.set(1, (g * hat).sum_to(c.input(1)).cast(c.input(1).dtype()));
}

// One value per channel, in a shape that broadcasts to [N, C, …].
Term per_channel(Term values, std::int64_t rank) {
  std::vector<std::int64_t> axes = axes_but(1, rank);
  return values.unsqueeze(std::move(axes));
}

// Sets the gradients of scale (input 1) and bias (input 2) from the normalised `hat` and g, both [N, C, …].
void set_channel_gradients(GradientContext& c, Term hat, Term g) {
  const std::vector<std::int64_t> others = axes_but(1, g.rank());
  if (c.wants(1)) c.set(1, (g * hat).sum(others, false).cast(c.input(1).dtype()));
  if (c.wants(2)) c.set(2, g.sum(others, false).cast(c.input(2).dtype()));
}

// The gradient of group and instance normalisation.
void group_gradient(GradientContext& c) {
  const DType own = c.input(0).dtype(), type = wide(own);
  const Term x = c.input(0).cast(type), g = c.gradient().cast(type),
             scaled = g * per_channel(c.input(1).cast(type), x.rank());
  const Term groups = c.op().name == "GroupNormalization" ? x.integers({c.integer("num_groups")}) : x.size_of(1);
  const Term grouped = join({x.size_of(0), groups, x.integers({-1})});
  const auto apart = [&](Term term) { return term.combine("Reshape", {grouped}); };
  const Normalised normalised(apart(x), {2}, c.real("epsilon"));
  if (c.wants(0)) c.set(0, normalised.back(apart(scaled)).reshape_like(x).cast(own));
  set_channel_gradients(c, normalised.hat.reshape_like(x), g);
}

// The statistics of the batch come from the operator that also returns them; it repeats the whole forward pass, which
// merge_duplicates merges with the original.
void batch_training_gradient(GradientContext& c) {
  GraphBuilder& builder = c.builder();
  const ir::Attributes attributes{{"epsilon", c.real("epsilon")}};
  const std::vector<ir::ValueId> forward = builder.add_multi(
      "tessera::BatchNormTraining", {c.input(0).id(), c.input(1).id(), c.input(2).id()}, 3, attributes);
  const std::vector<ir::ValueId> backward =
      builder.add_multi("tessera::BatchNormTrainingGradient",
                        {c.gradient().id(), c.input(0).id(), c.input(1).id(), forward[1], forward[2]}, 3, attributes);
  for (std::size_t i = 0; i < 3; ++i) c.set(i, {builder, backward[i]});
}

void batch_gradient(GradientContext& c) {
  refuse_gradient_of(c, {1, 2});
  if (c.integer("training_mode") != 0) return batch_training_gradient(c);
  const DType own = c.input(0).dtype(), type = wide(own);
  const Term x = c.input(0).cast(type), g = c.gradient().cast(type);
  const auto channel = [&](std::size_t i) { return per_channel(c.input(i).cast(type), x.rank()); };
  const Term scaled = g * channel(1);
  const Term inverse = 1 / (channel(4) + c.real("epsilon")).apply("Sqrt"), hat = (x - channel(3)) * inverse,
             slope = scaled * inverse;
  c.set(0, slope.cast(own));
  set_channel_gradients(c, hat, g);
  const std::vector<std::int64_t> others = axes_but(1, x.rank());
  if (c.wants(3)) c.set(3, (-slope).sum(others, false).cast(c.input(3).dtype()));
  if (c.wants(4)) c.set(4, (slope * hat * inverse * -0.5).sum(others, false).cast(c.input(4).dtype()));
}

// (g - y Σ g y) / ‖x‖, or (g - sign(x) Σ g y) / ‖x‖ for p = 1; zero where the norm is.
void lp_gradient(GradientContext& c) {
  const Term x = c.input(0), g = c.gradient(), y = c.output();
  const std::vector<std::int64_t> axes{normalise_axis(c.integer("axis"), x.rank())};
  const bool absolute = c.integer("p") == 1;
  const Term norm = absolute ? x.apply("Abs").sum(axes) : (x * x).sum(axes).apply("Sqrt");
  const Term along = (absolute ? x.apply("Sign") : y) * (g * y).sum(axes);
  c.set(0, norm.equals(norm.number(0)).choose(x.number(0), (g - along) / norm));
}

// With deviation s and d = s + 1e-9: (g - mean(g)) / d - (x - mean(x)) mean(g (x - mean(x))) / (s d²).
void mean_variance_gradient(GradientContext& c) {
  const Term x = c.input(0), g = c.gradient();
  std::vector<std::int64_t> axes;
  for (const std::int64_t axis : c.integers("axes")) axes.push_back(normalise_axis(axis, x.rank()));
  const Term centred = x - x.mean(axes), deviation = (centred * centred).mean(axes).apply("Sqrt");
  const Term divisor = deviation + 1e-9, product = centred * (g * centred).mean(axes) / (deviation * divisor * divisor);
  c.set(0, (g - g.mean(axes)) / divisor - deviation.equals(deviation.number(0)).choose(x.number(0), product));
}

// Sums over the neighbouring channels of each channel: those in its window, or with `back` those whose windows contain
// it.
Term neighbour_sum(GradientContext& c, Term term, bool back) {
  const std::int64_t size = c.integer("size"), before = (size - 1) / 2, after = size - 1 - before;
  const Term lines =
      term.combine("Reshape", {join({term.size_of(0), term.integers({1}), term.size_of(1), term.integers({-1})})});
  const Term mean = lines.apply(
      "AveragePool", {{"kernel_shape", std::vector<std::int64_t>{size, 1}},
                      {"pads", std::vector<std::int64_t>{back ? after : before, 0, back ? before : after, 0}},
                      {"count_include_pad", std::int64_t{1}}});
  return mean.reshape_like(term) * static_cast<double>(size);
}

// With s = bias + alpha / size Σ x²: g s^-beta - 2 alpha beta / size x Σ g x s^(-beta - 1), the sum over those that see
// x.
void lrn_gradient(GradientContext& c) {
  const Term x = c.input(0), g = c.gradient();
  const double size = static_cast<double>(c.integer("size")), alpha = static_cast<double>(c.real("alpha")),
               beta = static_cast<double>(c.real("beta"));
  const Term sum = neighbour_sum(c, x * x, false) * (alpha / size) + static_cast<double>(c.real("bias"));
  const Term slope = g * sum.combine("Pow", {sum.number(-beta)});
  c.set(0, slope - x * neighbour_sum(c, slope * x / sum, true) * (2 * alpha * beta / size));
}

}  // namespace

// y = (x − mean) / sqrt(var + epsilon) · scale + B, a channel at a time. In training mode mean and var are those of the
// batch, and running = input · momentum + batch · (1 − momentum). Ioffe and Szegedy, arXiv:1502.03167.
const OpDef batch_normalization{
    .name = "BatchNormalization",
    .since = 15,
    .inputs = {{"X", types::floats, "T"},
               {"scale", types::floats, "T1"},
               {"B", types::floats, "T1"},
               {"input_mean", types::floats, "T2"},
               {"input_var", types::floats, "T2"}},
    .outputs = {{"Y", types::floats, "T"},
                {"running_mean", types::floats, "T2", optional},
                {"running_var", types::floats, "T2", optional}},
    .attributes = {epsilon_attribute,
                   {"momentum", ir::AttributeKind::real, ir::Attribute(0.9f)},
                   integer_attribute("training_mode", 0)},
    .infer = infer_batch,
    .operations = operations_per_output<2>,
    .gradient = batch_gradient,
    .traits = {Trait::normalises},
};

// Over all axes from `axis` on: y = (x − mean) / sqrt(var + epsilon) · Scale + B. Ba et al., arXiv:1607.06450. Mean and
// InvStdDev have the type stash_type; what is computed in between is never narrower than X.
const OpDef layer_normalization{
    .name = "LayerNormalization",
    .since = 17,
    .inputs = {{"X", types::floats, "T"}, {"Scale", types::floats, "T"}, {"B", types::floats, "T", optional}},
    .outputs = {{"Y", types::floats, "T"},
                {"Mean", types::floats, "U", optional},
                {"InvStdDev", types::floats, "U", optional}},
    .attributes = {integer_attribute("axis", -1), epsilon_attribute, stash_type_attribute},
    .infer = infer_trailing,
    .operations = operations_per_output<8>,
    .gradient = layer_gradient,
    .traits = {Trait::normalises},
};

// y = x / sqrt(mean(x²) + epsilon) · scale. Zhang and Sennrich, arXiv:1910.07467.
const OpDef rms_normalization{
    .name = "RMSNormalization",
    .since = 23,
    .inputs = {{"X", types::floats, "T"}, {"scale", types::floats, "V"}},
    .outputs = {{"Y", types::floats, "V"}},
    .attributes = {integer_attribute("axis", -1), epsilon_attribute, stash_type_attribute},
    .infer = infer_trailing,
    .operations = operations_per_output<5>,
    .gradient = rms_gradient,
    .traits = {Trait::normalises},
};

// Channels in num_groups groups, normalised over a group and all positions. Wu and He, arXiv:1803.08494.
const OpDef group_normalization{
    .name = "GroupNormalization",
    .since = 21,
    .inputs = {{"X", types::floats, "T"}, {"scale", types::floats, "T"}, {"bias", types::floats, "T"}},
    .outputs = {{"Y", types::floats, "T"}},
    .attributes = {{"num_groups", ir::AttributeKind::integer, std::nullopt, true},
                   epsilon_attribute,
                   stash_type_attribute},
    .infer = infer_per_channel,
    .operations = operations_per_output<8>,
    .gradient = group_gradient,
    .traits = {Trait::normalises},
};

// Each channel of each sample over its positions. Ulyanov et al., arXiv:1607.08022.
const OpDef instance_normalization{
    .name = "InstanceNormalization",
    .since = 22,
    .inputs = {{"input", types::floats, "T"}, {"scale", types::floats, "T"}, {"B", types::floats, "T"}},
    .outputs = {{"output", types::floats, "T"}},
    .attributes = {epsilon_attribute},
    .infer = infer_per_channel,
    .operations = operations_per_output<8>,
    .gradient = group_gradient,
    .traits = {Trait::normalises},
};

// y = x / ‖x‖_p along an axis; 0 where the norm is 0.
const OpDef lp_normalization{
    .name = "LpNormalization",
    .since = 22,
    .inputs = {{"input", types::floats, "T"}},
    .outputs = {{"output", types::floats, "T"}},
    .attributes = {integer_attribute("axis", -1), integer_attribute("p", 2)},
    .infer = infer_lp,
    .operations = operations_per_output<3>,
    .gradient = lp_gradient,
    .traits = {Trait::normalises},
};

// y = (x − mean) / (standard deviation + 1e-9) over the axes.
const OpDef mean_variance_normalization{
    .name = "MeanVarianceNormalization",
    .since = 13,
    .inputs = {{"X", types::floats, "T"}},
    .outputs = {{"Y", types::floats, "T"}},
    .attributes = {{"axes", ir::AttributeKind::integers, ir::Attribute(std::vector<std::int64_t>{0, 2, 3})}},
    .infer = infer_mean_variance,
    .operations = operations_per_output<6>,
    .gradient = mean_variance_gradient,
    .traits = {Trait::normalises},
};

// y = x / (bias + alpha / size · Σ x²)^beta, the sum over `size` neighbouring channels. Krizhevsky et al., NIPS 2012.
const OpDef lrn{
    .name = "LRN",
    .since = 13,
    .inputs = {{"X", types::floats, "T"}},
    .outputs = {{"Y", types::floats, "T"}},
    .attributes = {{"alpha", ir::AttributeKind::real, ir::Attribute(1e-4f)},
                   {"beta", ir::AttributeKind::real, ir::Attribute(0.75f)},
                   {"bias", ir::AttributeKind::real, ir::Attribute(1.0f)},
                   {"size", ir::AttributeKind::integer, std::nullopt, true}},
    .infer = infer_lrn,
    .operations = operations_per_output<12>,
    .gradient = lrn_gradient,
};

}  // namespace tessera::ops
