#include "ops/values/random.h"

#include "ops/core/shape_arguments.h"
#include "ops/core/signatures.h"
#include "ops/values/random_streams.h"

namespace tessera::ops {
namespace {

constexpr TypeSet kLikeTypes = types::numbers | types::boolean | types::text | types::complex;
constexpr TypeSet kBernoulliTypes = types::numbers | types::boolean;

const AttributeSpec kSeed{"seed", ir::AttributeKind::real};
const AttributeSpec kOwnStream = stream_attribute();
const AttributeSpec kDtype{"dtype", ir::AttributeKind::integer};

// The element type asked for, or that of input 0.
DType requested_type(const InferContext& context, TypeSet allowed) {
  if (context.has_attribute("dtype")) return dtype_attribute(context, "dtype", allowed);
  const DType type = context.dtype(0);
  context.check(allowed.contains(type), "cannot give random numbers of type {}", name_of(type));
  return type;
}

void infer_random_shape(InferContext& context) {
  const Shape& shape = context.integers("shape");
  for (const std::int64_t dim : shape) context.check(dim >= 0, "dimension {} in the requested shape", dim);
  context.check(static_cast<std::int64_t>(shape.size()) <= max_rank, "a result of rank {}, expected at most {}",
                shape.size(), max_rank);
  context.set_output(0, ir::ValueType::tensor(dtype_attribute(context, "dtype", types::floats), shape));
}

void infer_like(InferContext& context) {
  ir::ValueType type = context.input(0);
  type.dtype = requested_type(context, types::floats);
  context.set_output(0, std::move(type));
}

void infer_bernoulli(InferContext& context) {
  ir::ValueType type = context.input(0);
  type.dtype = requested_type(context, kBernoulliTypes);
  context.set_output(0, std::move(type));
}

void infer_multinomial(InferContext& context) {
  const ir::Dims* dims = context.dims(0);
  const std::int64_t samples = context.integer("sample_size");
  context.check(samples >= 0, "sample_size is {}, expected at least 0", samples);
  context.check(dims == nullptr || dims->size() == 2, "input has shape {}, expected [batch, classes]",
                dims == nullptr ? "" : ir::to_string(*dims));
  context.set_output(0, dtype_attribute(context, "dtype", types::index),
                     {dims == nullptr ? ir::Dim() : (*dims)[0], ir::Dim(samples)});
}

double no_bytes(const NodeView&) {
  return 0;
}

OpDef of_shape(std::string_view name, AttributeSpec first, AttributeSpec second) {
  return {.name = name,
          .since = 22,
          .inputs = {},
          .outputs = {{"output", types::floats, "T"}},
          .attributes = {{"dtype", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})},
                         {"shape", ir::AttributeKind::integers, std::nullopt, true},
                         std::move(first),
                         std::move(second),
                         kSeed,
                         kOwnStream},
          .infer = infer_random_shape,
          .operations = operations_per_output<20>,
          .deterministic = false};
}

OpDef like(std::string_view name, AttributeSpec first, AttributeSpec second) {
  return {.name = name,
          .since = 22,
          .inputs = {{"input", kLikeTypes, "T1"}},
          .outputs = {{"output", types::floats, "T2"}},
          .attributes = {kDtype, std::move(first), std::move(second), kSeed, kOwnStream},
          .infer = infer_like,
          .operations = operations_per_output<20>,
          .bytes_read = no_bytes,
          .deterministic = false};
}

}  // namespace

// Normal with mean `mean` and standard deviation `scale`.
const OpDef random_normal = of_shape("RandomNormal", real_attribute("mean", 0.0f), real_attribute("scale", 1.0f));
const OpDef random_normal_like = like("RandomNormalLike", real_attribute("mean", 0.0f), real_attribute("scale", 1.0f));
// Uniform in [low, high).
const OpDef random_uniform = of_shape("RandomUniform", real_attribute("low", 0.0f), real_attribute("high", 1.0f));
const OpDef random_uniform_like = like("RandomUniformLike", real_attribute("low", 0.0f), real_attribute("high", 1.0f));

// 1 with the probability that the input's element gives, else 0.
const OpDef bernoulli{
    .name = "Bernoulli",
    .since = 22,
    .inputs = {{"input", types::floats, "T1"}},
    .outputs = {{"output", kBernoulliTypes, "T2"}},
    .attributes = {kDtype, kSeed, kOwnStream},
    .infer = infer_bernoulli,
    .operations = operations_per_output<11>,
    .deterministic = false,
};

// Classes drawn for each row with probability softmax(row), with replacement.
const OpDef multinomial{
    .name = "Multinomial",
    .since = 22,
    .inputs = {{"input", types::floats, "T1"}},
    .outputs = {{"output", types::index, "T2"}},
    .attributes = {{"dtype", ir::AttributeKind::integer, ir::Attribute(std::int64_t{6})},
                   {"sample_size", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})},
                   kSeed,
                   kOwnStream},
    .infer = infer_multinomial,
    .operations = operations_per_output<20>,
    .deterministic = false,
};

}  // namespace tessera::ops
