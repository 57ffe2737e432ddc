#include "ops/values/generate.h"

#include <cmath>

#include "base/error.h"
#include "base/numbers/half.h"
#include "ops/core/shape_arguments.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

constexpr TypeSet kRangeTypes{DType::f16, DType::bf16, DType::f32, DType::f64, DType::i16, DType::i32, DType::i64};
constexpr TypeSet kEyeTypes = types::numbers | types::boolean;
constexpr double kLargestCount = 0x1p62;

// The only element of a float or integer tensor; exact except for 64-bit integers beyond 2^53.
double single_number(const Tensor& tensor, std::string_view name) {
  require(tensor.elements() == 1, ErrorKind::invalid_model, "input '{}' has shape {}, expected one element", name,
          text_of(tensor.shape()));
  switch (tensor.dtype()) {
    case DType::f16:
      return base::to_float(*tensor.data<f16_t>());
    case DType::bf16:
      return base::to_float(*tensor.data<bf16_t>());
    case DType::f32:
      return *tensor.data<float>();
    case DType::f64:
      return *tensor.data<double>();
    case DType::i8:
      return *tensor.data<std::int8_t>();
    case DType::i16:
      return *tensor.data<std::int16_t>();
    case DType::i32:
      return *tensor.data<std::int32_t>();
    case DType::i64:
      return static_cast<double>(*tensor.data<std::int64_t>());
    case DType::u8:
      return *tensor.data<std::uint8_t>();
    case DType::u16:
      return *tensor.data<std::uint16_t>();
    case DType::u32:
      return *tensor.data<std::uint32_t>();
    case DType::u64:
      return static_cast<double>(*tensor.data<std::uint64_t>());
    default:
      fail(ErrorKind::invalid_model, "input '{}' is {}, expected a number", name, name_of(tensor.dtype()));
  }
}

void check_generate_single(const InferContext& context, std::size_t i) {
  if (const ir::Dims* dims = context.dims(i)) {
    const ir::Dim count = ir::product(*dims);
    context.check(count.may_equal(1), "input '{}' has shape {}, expected one element", context.op().inputs[i].name,
                  text_of(*dims));
  }
}

void infer_constant_of_shape(InferContext& context) {
  DType type = DType::f32;
  if (context.has_attribute("value")) {
    const Tensor& value = context.tensor("value");
    context.check(value.elements() == 1, "attribute 'value' has shape {}, expected one element",
                  text_of(value.shape()));
    type = value.dtype();
  }
  if (const auto request = context.constant_integers(0)) {
    unknown_dims(static_cast<std::int64_t>(request->size()));
    for (std::int64_t dim : *request) context.check(dim >= 0, "dimension {} in the requested shape", dim);
    context.set_output(0, type, ir::to_dims(*request));
  } else if (const auto rank = known_length(context, 0)) {
    context.set_output(0, type, unknown_dims(*rank));
  } else {
    context.set_output_unknown_rank(0, type);
  }
}

void infer_range(InferContext& context) {
  for (std::size_t i = 0; i < 3; ++i) check_generate_single(context, i);
  ir::Dim count;
  if (context.constant(0) != nullptr && context.constant(1) != nullptr && context.constant(2) != nullptr) {
    count = range_count(*context.constant(0), *context.constant(1), *context.constant(2));
  }
  context.set_output(0, context.dtype(0), {count});
}

void infer_eye_like(InferContext& context) {
  const ir::Dims* input = context.dims(0);
  context.check(input == nullptr || input->size() == 2, "input has rank {}, expected 2",
                input == nullptr ? 0 : input->size());
  const DType type = context.has_attribute("dtype") ? dtype_attribute(context, "dtype", kEyeTypes) : context.dtype(0);
  context.set_output(0, type, input != nullptr ? *input : ir::Dims(2));
}

void infer_one_hot(InferContext& context) {
  check_generate_single(context, 1);
  const auto length = known_length(context, 2);
  context.check(!length || *length == 2, "input 'values' has {} elements, expected [off, on]", length.value_or(0));
  const ir::Dims* indices = context.dims(0);
  if (indices == nullptr) return context.set_output_unknown_rank(0, context.dtype(2));
  ir::Dims result = *indices;
  const std::int64_t axis = normalise_axis(context.integer("axis"), static_cast<std::int64_t>(result.size()) + 1);
  result.insert(result.begin() + axis,
                context.constant(1) != nullptr ? ir::Dim(one_hot_depth(*context.constant(1))) : ir::Dim());
  context.set_output(0, context.dtype(2), std::move(result));
}

double nothing_read_generate(const NodeView&) {
  return 0;
}

}  // namespace

std::int64_t range_count(const Tensor& start, const Tensor& limit, const Tensor& delta) {
  if (is_integer(start.dtype())) {
    const auto integer = [](const Tensor& tensor, std::string_view name) -> __int128_t {
      const double approximate = single_number(tensor, name);
      return tensor.dtype() == DType::i64 ? static_cast<__int128_t>(*tensor.data<std::int64_t>())
                                          : static_cast<__int128_t>(approximate);
    };
    const __int128_t from = integer(start, "start"), to = integer(limit, "limit"), step = integer(delta, "delta");
    require(step != 0, ErrorKind::failed, "delta is 0");
    const __int128_t distance = step > 0 ? to - from : from - to, pace = step > 0 ? step : -step;
    if (distance <= 0) return 0;
    const __int128_t count = (distance - 1) / pace + 1;
    require(count <= static_cast<__int128_t>(kLargestCount), ErrorKind::over_budget, "the range has too many elements");
    return static_cast<std::int64_t>(count);
  }
  const double from = single_number(start, "start"), to = single_number(limit, "limit"),
               step = single_number(delta, "delta");
  require(step != 0, ErrorKind::failed, "delta is 0");
  require(std::isfinite(from) && std::isfinite(to) && std::isfinite(step), ErrorKind::failed,
          "a range from {} to {} by {}", from, to, step);
  const double count = std::ceil((to - from) / step);
  require(count <= kLargestCount, ErrorKind::over_budget, "the range has too many elements");
  return count > 0 ? static_cast<std::int64_t>(count) : 0;
}

std::int64_t one_hot_depth(const Tensor& depth) {
  const double value = single_number(depth, "depth");
  require(value >= 0 && value <= kLargestCount, ErrorKind::failed, "depth is {}", value);
  return static_cast<std::int64_t>(value);
}

const OpDef constant_of_shape{
    .name = "ConstantOfShape",
    .since = 25,
    .inputs = {{"input", types::i64}},
    .outputs = {{"output", types::all}},
    .attributes = {{"value", ir::AttributeKind::tensor}},
    .infer = infer_constant_of_shape,
    .bytes_read = nothing_read_generate,
};

const OpDef range{
    .name = "Range",
    .since = 27,
    .inputs = {{"start", kRangeTypes, "T"}, {"limit", kRangeTypes, "T"}, {"delta", kRangeTypes, "T"}},
    .outputs = {{"output", kRangeTypes, "T"}},
    // Sixteen-bit floats are always computed in double and rounded once, which is at least as exact as either stash
    // type.
    .attributes = {{"stash_type", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})}},
    .infer = infer_range,
    .operations = operations_per_output<2>,
    .bytes_read = nothing_read_generate,
};

const OpDef eye_like{
    .name = "EyeLike",
    .since = 22,
    .inputs = {{"input", kEyeTypes}},
    .outputs = {{"output", kEyeTypes}},
    .attributes = {{"dtype", ir::AttributeKind::integer},
                   {"k", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})}},
    .infer = infer_eye_like,
    .bytes_read = nothing_read_generate,
};

const OpDef one_hot{
    .name = "OneHot",
    .since = 11,
    .inputs = {{"indices", types::numbers}, {"depth", types::numbers}, {"values", types::all, "T3"}},
    .outputs = {{"output", types::all, "T3"}},
    .attributes = {{"axis", ir::AttributeKind::integer, ir::Attribute(std::int64_t{-1})}},
    .infer = infer_one_hot,
};

}  // namespace tessera::ops
