#include "passes/patterns/crop_rules.h"

#include <algorithm>

#include "ops/convolutions/window_geometry.h"
#include "ops/op_table.h"
#include "passes/layout/crop_upsampling.h"

namespace tessera::passes {
namespace {

using ir::ValueId;
using ops::GraphBuilder;
using ops::SliceRange;
using CroppedValue = std::optional<ValueId>;

bool has_one_element(const GraphBuilder& builder, ValueId value) {
  const ir::Dims* dims = builder.dims(value);
  return dims != nullptr &&
         std::ranges::all_of(*dims, [](const ir::Dim& dim) { return dim.is_known() && dim.value() == 1; });
}

ValueId with_operands(GraphBuilder& builder, const ir::Node& node, std::vector<ValueId> inputs) {
  return builder.add(node.op, std::move(inputs), node.attributes);
}

CroppedValue crop_map(GraphBuilder& builder, const ir::Node& node, const Crop& crop) {
  std::vector<ValueId> inputs = node.inputs;
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i].valid() && !has_one_element(builder, inputs[i])) return std::nullopt;
  }
  inputs[0] = cropped(builder, inputs[0], crop);
  return with_operands(builder, node, std::move(inputs));
}

// The crop of an operand that broadcasts to the result, its axes aligned with the result's last `rank` ones.
std::optional<Crop> broadcast_crop(const ir::Dims& operand, const ir::Dims& result, const Crop& crop) {
  Crop own;
  for (const auto& [axis, range] : crop) {
    const std::size_t missing = result.size() - operand.size();
    if (axis < missing) continue;
    const ir::Dim& dim = operand[axis - missing];
    if (dim.is_known() && dim.value() == 1) continue;
    if (!dim.surely_equals(result[axis])) return std::nullopt;
    own.emplace(axis - missing, range);
  }
  return own;
}

CroppedValue crop_broadcasting(GraphBuilder& builder, const ir::Node& node, const Crop& crop) {
  const ir::Dims result = *builder.dims(node.outputs[0]);
  std::vector<ValueId> inputs;
  for (const ValueId input : node.inputs) {
    const ir::Dims* dims = builder.dims(input);
    const std::optional<Crop> own = dims == nullptr ? std::nullopt : broadcast_crop(*dims, result, crop);
    if (!own) return std::nullopt;
    inputs.push_back(cropped(builder, input, *own));
  }
  return with_operands(builder, node, std::move(inputs));
}

// Crops operators that compute row by row over the axes from `first` to `last` (exclusive), in which rows are
// independent.
CroppedValue crop_rows(GraphBuilder& builder, const ir::Node& node, const Crop& crop, std::int64_t first,
                       std::int64_t last) {
  const bool inside = std::ranges::any_of(crop, [&](const auto& each) {
    return static_cast<std::int64_t>(each.first) >= first && static_cast<std::int64_t>(each.first) < last;
  });
  if (inside) return std::nullopt;
  std::vector<ValueId> inputs = node.inputs;
  inputs[0] = cropped(builder, inputs[0], crop);
  return with_operands(builder, node, std::move(inputs));
}

CroppedValue crop_normalisation(GraphBuilder& builder, const ir::Node& node, const Crop& crop) {
  const auto rank = static_cast<std::int64_t>(builder.dims(node.outputs[0])->size());
  const std::int64_t axis = ops::normalise_axis(ops::AttributeReader(node, ops::op_of(node)).integer("axis"), rank);
  const bool one_axis = node.op == "Softmax" || node.op == "LogSoftmax";
  // A scale and a bias must be the same for all rows.
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    const ir::Dims* dims = node.inputs[i].valid() ? builder.dims(node.inputs[i]) : nullptr;
    if (node.inputs[i].valid() && (dims == nullptr || static_cast<std::int64_t>(dims->size()) > rank - axis))
      return std::nullopt;
  }
  return crop_rows(builder, node, crop, axis, one_axis ? axis + 1 : rank);
}

CroppedValue crop_transpose(GraphBuilder& builder, const ir::Node& node, const Crop& crop) {
  const std::size_t rank = builder.dims(node.outputs[0])->size();
  const auto perm = ops::AttributeReader(node, ops::op_of(node)).integers_or_empty("perm");
  Crop own;
  for (const auto& [axis, range] : crop)
    own.emplace(perm.empty() ? rank - 1 - axis : static_cast<std::size_t>(perm[axis]), range);
  return with_operands(builder, node, {cropped(builder, node.inputs[0], own)});
}

// The axis of the input that corresponds to this axis of the result: of equal length, with equal axes on one side of
// it.
std::optional<std::size_t> same_axis(const ir::Dims& input, const ir::Dims& result, std::size_t axis) {
  const auto equal = [](const ir::Dim& a, const ir::Dim& b) { return a.surely_equals(b); };
  if (axis < input.size() &&
      std::equal(result.begin(), result.begin() + static_cast<std::ptrdiff_t>(axis) + 1, input.begin(), equal))
    return axis;
  const std::size_t behind = result.size() - axis;
  if (behind <= input.size() && std::equal(result.end() - static_cast<std::ptrdiff_t>(behind), result.end(),
                                           input.end() - static_cast<std::ptrdiff_t>(behind), equal))
    return input.size() - behind;
  // Otherwise between groups of axes with equally many elements.
  const auto product = [](auto begin, auto end) -> std::optional<std::int64_t> {
    std::int64_t count = 1;
    for (; begin != end; ++begin) {
      if (!begin->is_known() || __builtin_mul_overflow(count, begin->value(), &count)) return std::nullopt;
    }
    return count;
  };
  const std::optional<std::int64_t> wanted =
      product(result.begin(), result.begin() + static_cast<std::ptrdiff_t>(axis));
  for (std::size_t i = 0; wanted && i < input.size(); ++i) {
    if (input[i].surely_equals(result[axis]) &&
        product(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(i)) == wanted)
      return i;
  }
  return std::nullopt;
}

CroppedValue crop_reshape(GraphBuilder& builder, const ir::Node& node, const Crop& crop) {
  const ir::Dims* input = builder.dims(node.inputs[0]);
  if (input == nullptr) return std::nullopt;
  ir::Dims result = *builder.dims(node.outputs[0]);
  Crop own;
  for (const auto& [axis, range] : crop) {
    const std::optional<std::size_t> found = same_axis(*input, *builder.dims(node.outputs[0]), axis);
    if (!found || !own.emplace(*found, range).second) return std::nullopt;
    result[axis] = range.count;
  }
  std::vector<std::int64_t> target;
  for (const ir::Dim& dim : result) target.push_back(dim.is_known() ? dim.value() : -1);
  if (std::ranges::count(target, -1) > 1 || std::ranges::find(target, 0) != target.end()) return std::nullopt;
  const ValueId data = cropped(builder, node.inputs[0], own);
  return builder.add("Reshape", {data, builder.integers(std::move(target))});
}

CroppedValue crop_concat(GraphBuilder& builder, const ir::Node& node, const Crop& crop) {
  const std::size_t rank = builder.dims(node.outputs[0])->size();
  const auto axis = static_cast<std::size_t>(ops::normalise_axis(
      ops::AttributeReader(node, ops::op_of(node)).integer("axis"), static_cast<std::int64_t>(rank)));
  const auto along = crop.find(axis);
  if (along != crop.end() && along->second.step != 1) return std::nullopt;
  std::vector<ValueId> parts;
  std::int64_t begin = 0;
  for (const ValueId input : node.inputs) {
    const ir::Dims* dims = builder.dims(input);
    if (dims == nullptr || (along != crop.end() && !(*dims)[axis].is_known())) return std::nullopt;
    Crop own = crop;
    own.erase(axis);
    if (along != crop.end()) {
      const std::int64_t size = (*dims)[axis].value(), low = std::max(along->second.start, begin),
                         high = std::min(along->second.start + along->second.count, begin + size);
      begin += size;
      if (low >= high) continue;
      if (high - low < size) own.emplace(axis, SliceRange{low - (begin - size), 1, high - low});
    }
    parts.push_back(cropped(builder, input, own));
  }
  if (parts.empty()) return std::nullopt;
  return parts.size() == 1 ? parts[0] : with_operands(builder, node, std::move(parts));
}

// Crops rows of the left operand and columns of the right one.
CroppedValue crop_product(GraphBuilder& builder, const ir::Node& node, const Crop& crop) {
  const ir::Dims *a = builder.dims(node.inputs[0]), *b = builder.dims(node.inputs[1]);
  if (a == nullptr || b == nullptr || a->size() < 2 || b->size() < 2) return std::nullopt;
  const ir::Dims result = *builder.dims(node.outputs[0]);
  const std::size_t row = result.size() - 2, column = result.size() - 1;
  Crop left = crop, right = crop;
  left.erase(column);
  right.erase(row);
  ir::Dims a_like = *a, b_like = *b;  // the operands' dimensions, with the size of the result where they are cropped
  a_like.back() = result.back();
  b_like[b_like.size() - 2] = result[row];
  const std::optional<Crop> left_crop = broadcast_crop(a_like, result, left),
                            right_crop = broadcast_crop(b_like, result, right);
  if (!left_crop || !right_crop) return std::nullopt;
  const ValueId x = cropped(builder, node.inputs[0], *left_crop), w = cropped(builder, node.inputs[1], *right_crop);
  return with_operands(builder, node, {x, w});
}

// The halo of a cropped window operator: the range of the input that it reads, and the padding beyond the map.
struct Halo {
  SliceRange input;
  std::int64_t stride = 1, pad_begin = 0, pad_end = 0;
};

std::optional<Halo> halo(const ops::WindowAxis& axis, const SliceRange& range) {
  const std::int64_t first = range.start * axis.stride - axis.pad_begin;
  const std::int64_t last = first + (range.count - 1) * range.step * axis.stride + axis.extent();
  const std::int64_t low = std::max<std::int64_t>(first, 0), high = std::min(last, axis.input);
  if (low >= high) return std::nullopt;
  return Halo{{low, 1, high - low}, axis.stride * range.step, low - first, last - high};
}

// Crops convolution and pooling: the axes of their windows, and the result's channels by the weights.
CroppedValue crop_window(GraphBuilder& builder, const ir::Node& node, const Crop& crop) {
  const ir::Dims* x = builder.dims(node.inputs[0]);
  if (x == nullptr || x->size() < 3) return std::nullopt;
  const ops::AttributeReader reader(node, ops::op_of(node));
  const bool is_conv = node.op == "Conv";
  const std::size_t spatial = x->size() - 2;
  std::vector<std::int64_t> kernel(spatial, -1);
  if (is_conv) {
    const ir::Dims* w = builder.dims(node.inputs[1]);
    if (w == nullptr || w->size() != x->size()) return std::nullopt;
    for (std::size_t i = 0; i < spatial; ++i) kernel[i] = (*w)[i + 2].is_known() ? (*w)[i + 2].value() : -1;
    if (std::ranges::find(kernel, -1) != kernel.end()) return std::nullopt;
  }
  ops::WindowAttributes window = ops::read_window_attributes(reader, kernel);
  if (window.ceil_mode || (window.auto_pad != ops::AutoPad::not_set && window.auto_pad != ops::AutoPad::valid))
    return std::nullopt;
  std::vector<ValueId> inputs = node.inputs;
  Crop data, channels;
  for (const auto& [axis, range] : crop) {
    if (axis >= 2) {
      if (!(*x)[axis].is_known()) return std::nullopt;
      const ops::WindowAxis whole = ops::resolve_window_axis(window, axis - 2, (*x)[axis].value());
      if (whole.extent() > whole.input + whole.pad_begin + whole.pad_end) return std::nullopt;
      const std::optional<Halo> found = halo(whole, range);
      if (!found) return std::nullopt;
      if (found->input.count < (*x)[axis].value()) data.emplace(axis, found->input);
      window.strides[axis - 2] = found->stride;
      window.pads[axis - 2] = found->pad_begin;
      window.pads[axis - 2 + spatial] = found->pad_end;
    } else if (axis == 1 && is_conv) {
      const bool constant = std::ranges::all_of(node.inputs.begin() + 1, node.inputs.end(), [&](ValueId input) {
        return !input.valid() || builder.graph().is_constant(input);
      });
      if (reader.integer("group") != 1 || !constant) return std::nullopt;
      channels.emplace(0, range);
    } else {
      data.emplace(axis, range);
    }
  }
  inputs[0] = cropped(builder, inputs[0], data);
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i].valid()) inputs[i] = cropped(builder, inputs[i], channels);
  }
  ir::Attributes attributes = node.attributes;
  attributes.erase("auto_pad");
  attributes.insert_or_assign("strides", window.strides);
  attributes.insert_or_assign("pads", window.pads);
  return builder.add(node.op, std::move(inputs), std::move(attributes));
}

}  // namespace

std::vector<ValueId> slice_inputs(GraphBuilder& builder, ValueId value, const Crop& crop) {
  std::vector<std::int64_t> starts, ends, axes, steps;
  for (const auto& [axis, range] : crop) {
    axes.push_back(static_cast<std::int64_t>(axis));
    starts.push_back(range.start);
    ends.push_back(range.start + (range.count - 1) * range.step + 1);
    steps.push_back(range.step);
  }
  return {value, builder.integers(starts), builder.integers(ends), builder.integers(axes), builder.integers(steps)};
}

ValueId cropped(GraphBuilder& builder, ValueId value, const Crop& crop) {
  return crop.empty() ? value : builder.add("Slice", slice_inputs(builder, value, crop));
}

CroppedValue cropped_result(GraphBuilder& builder, const ir::Node& node, const Crop& crop) {
  const ops::OpDef& op = ops::op_of(node);
  switch (op.element_wise) {
    case ops::ElementWise::to_first:
    case ops::ElementWise::broadcasting:
      return crop_broadcasting(builder, node, crop);
    case ops::ElementWise::unary:
      return crop_map(builder, node, crop);
    case ops::ElementWise::along_axis:
      if (const CroppedValue result = crop_map(builder, node, crop)) return result;
      break;
    case ops::ElementWise::no:
      break;
  }
  if (node.op == "Softmax" || node.op == "LogSoftmax" || node.op == "LayerNormalization" ||
      node.op == "RMSNormalization")
    return crop_normalisation(builder, node, crop);
  if (node.op == "BatchNormalization" && ops::AttributeReader(node, ops::op_of(node)).integer("training_mode") == 0)
    return crop_rows(builder, node, crop, 1, 2);
  if (node.op == "Transpose") return crop_transpose(builder, node, crop);
  if (op.view) return crop_reshape(builder, node, crop);
  if (node.op == "Concat") return crop_concat(builder, node, crop);
  if (node.op == "MatMul") return crop_product(builder, node, crop);
  if (node.op == "Conv" || node.op == "MaxPool" || node.op == "AveragePool") return crop_window(builder, node, crop);
  if (node.op == "ConvTranspose") return cropped_transposed(builder, node, crop);
  if (node.op == "Resize") return cropped_resize(builder, node, crop);
  return std::nullopt;
}

}  // namespace tessera::passes
