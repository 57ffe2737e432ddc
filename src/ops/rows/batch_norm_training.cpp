#include "ops/rows/batch_norm_training.h"

#include "base/error.h"
#include "ops/core/gradient.h"
#include "ops/core/text_of.h"
#include "ops/core/wanted_output.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;

const std::vector<AttributeSpec> kBatchNormTrainingAttributes{
    {"epsilon", AttributeKind::real, ir::Attribute(1e-5f)},
    {"channel_axis", AttributeKind::integer, ir::Attribute(std::int64_t{1})},
    {"relu", AttributeKind::integer, ir::Attribute(std::int64_t{0})}};

// The dimension of the channels of input i; unknown while the rank is.
ir::Dim channels_of(const InferContext& context, std::size_t i) {
  const ir::Dims* dims = context.dims(i);
  if (dims == nullptr) return {};
  context.check(dims->size() >= 2, "input '{}' has rank {}, expected at least 2", context.op().inputs[i].name,
                dims->size());
  const std::int64_t axis = normalise_axis(context.integer("channel_axis"), static_cast<std::int64_t>(dims->size()));
  return (*dims)[static_cast<std::size_t>(axis)];
}

void check_channels(const InferContext& context, std::size_t i, const ir::Dim& channels) {
  const ir::Dims* dims = context.dims(i);
  if (!context.has_input(i) || dims == nullptr) return;
  context.check(dims->size() == 1 && (*dims)[0].may_equal(channels),
                "input '{}' has shape {}, expected one value for each of {} channels", context.op().inputs[i].name,
                text_of(*dims), text_of(channels));
}

void check_same_shape(const InferContext& context, std::size_t i, std::size_t as) {
  if (!context.has_input(i)) return;
  const ir::Dims *own = context.dims(i), *other = context.dims(as);
  if (own == nullptr || other == nullptr) return;
  bool fits = own->size() == other->size();
  for (std::size_t axis = 0; fits && axis < own->size(); ++axis) fits = (*own)[axis].may_equal((*other)[axis]);
  context.check(fits, "input '{}' has shape {}, expected that of '{}', {}", context.op().inputs[i].name, text_of(*own),
                context.op().inputs[as].name, text_of(*other));
}

void infer_batch_norm_training_forward(InferContext& context) {
  const ir::Dim channels = channels_of(context, 0);
  check_channels(context, 1, channels);
  check_channels(context, 2, channels);
  check_same_shape(context, 3, 0);
  context.set_output(0, context.input(0));
  const DType wide = context.dtype(0) == DType::f64 ? DType::f64 : DType::f32;
  context.set_output(1, wide, {channels});
  context.set_output(2, wide, {channels});
}

void infer_batch_norm_training_backward(InferContext& context) {
  const ir::Dim channels = channels_of(context, 1);
  check_same_shape(context, 0, 1);
  for (std::size_t i = 2; i < 5; ++i) check_channels(context, i, channels);
  check_same_shape(context, 5, 1);
  context.check(context.integer("relu") == 0 || context.has_input(5), "with relu the result of the operator is needed");
  context.set_output(0, context.input(1));
  context.set_output(1, context.input(2));
  context.set_output(2, context.input(2));
  context.set_output(3, context.input(0));
}

void batch_norm_training_forward_gradient(GradientContext& c) {
  for (std::size_t i : {1, 2})
    require(!c.has_gradient(i), ErrorKind::unsupported, "output '{}' is used", c.op().outputs[i].name);
  const bool relu = c.integer("relu") != 0, adds = c.has_input(3), masks = relu && adds && c.wants(3);
  std::vector<ir::ValueId> operands{c.gradient().id(), c.input(0).id(), c.input(1).id(), wanted_output(c, 1).id(),
                                    wanted_output(c, 2).id()};
  if (relu) operands.push_back(c.output(0).id());
  const std::vector<ir::ValueId> made =
      c.builder().add_multi("tessera::BatchNormTrainingGradient", operands, masks ? 4 : 3, c.node().attributes);
  for (std::size_t i = 0; i < 3; ++i) c.set(i, {c.builder(), made[i]});
  if (adds) c.set(3, masks ? Term(c.builder(), made[3]) : c.gradient());
}

}  // namespace

const OpDef batch_norm_training{
    .name = "tessera::BatchNormTraining",
    .since = 1,
    .inputs = {{"X", types::floats, "T"},
               {"scale", types::floats, "T1"},
               {"B", types::floats, "T1"},
               {"addend", types::floats, "T", optional}},
    .outputs = {{"Y", types::floats, "T"},
                {"mean", {DType::f32, DType::f64}, "U"},
                {"variance", {DType::f32, DType::f64}, "U"}},
    .attributes = kBatchNormTrainingAttributes,
    .infer = infer_batch_norm_training_forward,
    .operations = operations_per_input<8>,
    .gradient = batch_norm_training_forward_gradient,
    .traits = {Trait::normalises},
};

const OpDef batch_norm_training_gradient{
    .name = "tessera::BatchNormTrainingGradient",
    .since = 1,
    .inputs = {{"dY", types::floats, "T"},
               {"X", types::floats, "T"},
               {"scale", types::floats, "T1"},
               {"mean", {DType::f32, DType::f64}, "U"},
               {"variance", {DType::f32, DType::f64}, "U"},
               {"Y", types::floats, "T", optional}},
    .outputs = {{"dX", types::floats, "T"},
                {"dScale", types::floats, "T1"},
                {"dB", types::floats, "T1"},
                {"dAddend", types::floats, "T", optional}},
    .attributes = kBatchNormTrainingAttributes,
    .infer = infer_batch_norm_training_backward,
    .operations = operations_per_input<12>,
};

}  // namespace tessera::ops
