// Attributes, optional inputs and meanings that were added to an operator later.
#include <algorithm>
#include <numeric>

#include "io/onnx/downgrade/downgrade_rules.h"

namespace tessera::io {

using Integers = std::vector<std::int64_t>;

// Older versions had other outputs when training.
bool batch_normalization_to_13(Downgrade& downgrade) {
  const bool training = downgrade.integer_or("training_mode", 0) != 0;
  downgrade.erase("training_mode");
  return !training;
}

bool cast_like_to_14(Downgrade& downgrade) {
  const DType to = downgrade.dtype(1);
  if (to == DType::undefined) return false;
  downgrade.node.op = "Cast";
  downgrade.node.attributes["to"] = static_cast<std::int64_t>(to);
  downgrade.drop_input(1);
  return true;
}

// Attribute output_dtype: the result had the type of the scale.
bool dequantize_linear_to_22(Downgrade& downgrade) {
  const std::int64_t wanted = downgrade.integer_or("output_dtype", 0);
  downgrade.erase("output_dtype");
  return wanted == 0 || wanted == static_cast<std::int64_t>(downgrade.dtype(1));
}

// C was not optional.
bool gemm_to_10(Downgrade& downgrade) {
  if (downgrade.has_input(2)) return true;
  if (downgrade.dtype(0) == DType::undefined) return false;
  downgrade.set_input(2, downgrade.builder.scalar(0, downgrade.dtype(0)));
  return true;
}

// Modes had other names, and only images were supported.
bool grid_sample_to_19(Downgrade& downgrade) {
  const std::string mode = downgrade.text_or("mode", "linear");
  downgrade.node.attributes["mode"] = mode == "linear"  ? std::string("bilinear")
                                      : mode == "cubic" ? std::string("bicubic")
                                                        : mode;
  return downgrade.rank(0) == 4;
}

// GreaterOrEqual, LessOrEqual
bool or_equal_to_11(Downgrade& downgrade) {
  const std::vector<ir::ValueId> operands = downgrade.node.inputs;
  const ir::ValueId beyond =
      downgrade.builder.add(downgrade.node.op == "GreaterOrEqual" ? "Greater" : "Less", operands);
  return downgrade.become({downgrade.builder.add("Or", {beyond, downgrade.builder.add("Equal", operands)})});
}

// Exponents had the type of the base.
bool pow_to_11(Downgrade& downgrade) {
  const DType base = downgrade.dtype(0), exponent = downgrade.dtype(1);
  if (base == exponent) return true;
  if (!ops::types::floats.contains(base) || exponent == DType::undefined) return false;
  downgrade.set_input(1, downgrade.builder.cast(downgrade.node.inputs[1], base));
  return true;
}

// Attribute output_dtype: the zero point said the type, without one u8.
bool quantize_linear_to_20(Downgrade& downgrade) {
  const auto wanted = static_cast<DType>(downgrade.integer_or("output_dtype", 0));
  if (wanted == DType::undefined && !downgrade.node.attributes.contains("output_dtype")) return true;
  downgrade.erase("output_dtype");
  if (wanted == DType::undefined || wanted == DType::u8 || downgrade.has_input(2)) return true;
  const ir::ValueType& scale = downgrade.builder.type(downgrade.node.inputs[1]);
  const std::optional<Shape> shape = scale.is_tensor() ? scale.shape() : std::nullopt;
  if (bits_of(wanted) < 8) return false;
  Tensor zeros(wanted, shape.value_or(Shape{}));
  std::fill_n(static_cast<std::byte*>(zeros.mutable_raw()), static_cast<std::size_t>(zeros.bytes()), std::byte{0});
  ops::GraphBuilder& builder = downgrade.builder;
  ir::ValueId zero_point = builder.constant(std::move(zeros));
  if (!shape) zero_point = builder.add("Expand", {zero_point, builder.add("Shape", {downgrade.node.inputs[1]})});
  downgrade.set_input(2, zero_point);
  return true;
}

// There was only one mode.
bool roi_align_to_15(Downgrade& downgrade) {
  const bool same = downgrade.text_or("coordinate_transformation_mode", "half_pixel") == "output_half_pixel";
  downgrade.erase("coordinate_transformation_mode");
  return same;
}

// The operator was called Scatter.
bool scatter_elements_to_10(Downgrade& downgrade) {
  const bool plain = downgrade.text_or("reduction", "none") == "none";
  downgrade.erase("reduction");
  downgrade.node.op = "Scatter";
  return plain;
}

// Attributes start, end: part of the shape.
bool shape_to_14(Downgrade& downgrade) {
  const std::int64_t start = downgrade.integer_or("start", 0);
  const std::optional<std::int64_t> end = downgrade.find<std::int64_t>("end");
  if (start == 0 && !end) {
    downgrade.erase("start");
    return true;
  }
  ops::GraphBuilder& builder = downgrade.builder;
  const ir::ValueId all = builder.add("Shape", {downgrade.node.inputs[0]});
  const std::int64_t stop = end.value_or(std::numeric_limits<std::int64_t>::max());
  return downgrade.become(
      {builder.add("Slice", {all, builder.integers({start}), builder.integers({stop}), builder.integers({0})})});
}

// Softmax, LogSoftmax, Hardmax took all dimensions from `axis` on as one, so only the last axis has the same meaning;
// other axes are moved there.
bool softmax_to_12(Downgrade& downgrade) {
  const std::optional<std::int64_t> rank = downgrade.rank(0);
  const std::int64_t given = downgrade.integer_or("axis", -1);
  if (!rank) {
    if (given != -1 || downgrade.version < 11) return false;
    downgrade.node.attributes["axis"] = given;
    return true;
  }
  const std::int64_t axis = given < 0 ? given + *rank : given, last = *rank - 1;
  if (axis < 0 || axis > last) return false;
  if (axis == last) {
    downgrade.node.attributes["axis"] = last;
    return true;
  }
  Integers order(static_cast<std::size_t>(*rank));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::swap(order[static_cast<std::size_t>(axis)], order[static_cast<std::size_t>(last)]);
  ops::GraphBuilder& builder = downgrade.builder;
  const ir::ValueId moved = builder.add("Transpose", {downgrade.node.inputs[0]}, {{"perm", order}});
  const ir::ValueId result = builder.add(downgrade.node.op, {moved}, {{"axis", last}});
  return downgrade.become({builder.add("Transpose", {result}, {{"perm", order}})});
}

// Attributes largest and sorted: the largest came first.
bool top_k_to_10(Downgrade& downgrade) {
  const bool largest = downgrade.integer_or("largest", 1) != 0;
  downgrade.erase("largest");
  downgrade.erase("sorted");
  return largest;
}

}  // namespace tessera::io
