#include "ops/core/shape_arguments.h"

#include <numeric>

#include "base/assert.h"
#include "base/error.h"
#include "ops/core/text_of.h"

namespace tessera::ops {

std::optional<std::int64_t> known_length(const InferContext& context, std::size_t i) {
  const ir::Dims* dims = context.dims(i);
  if (dims == nullptr) return std::nullopt;
  context.check(dims->size() == 1, "input '{}' has shape {}, expected one dimension", context.op().inputs[i].name,
                text_of(*dims));
  if (!(*dims)[0].is_known()) return std::nullopt;
  return (*dims)[0].value();
}

ir::Dims unknown_dims(std::int64_t rank) {
  require(rank >= 0 && rank <= max_rank, ErrorKind::invalid_model, "a result of rank {}, expected at most {}", rank,
          max_rank);
  return ir::Dims(static_cast<std::size_t>(rank));
}

std::vector<std::int64_t> normalise_axes(std::span<const std::int64_t> axes, std::int64_t rank) {
  std::vector<std::int64_t> result;
  std::vector<bool> seen(static_cast<std::size_t>(rank), false);
  for (std::int64_t axis : axes) {
    result.push_back(normalise_axis(axis, rank));
    auto mark = seen[static_cast<std::size_t>(result.back())];
    require(!mark, ErrorKind::invalid_model, "axis {} is listed more than once", axis);
    mark = true;
  }
  return result;
}

std::vector<std::int64_t> all_axes(std::int64_t rank) {
  std::vector<std::int64_t> axes(static_cast<std::size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

ir::Dim same_dim(const ir::Dim& a, const ir::Dim& b) {
  require(a.may_equal(b), ErrorKind::invalid_model, "dimensions {} and {} must be equal", text_of(a), text_of(b));
  if (a.is_known() || b.is_unknown()) return a;
  return b.is_known() || a.is_unknown() ? b : a;
}

Shape concrete_shape(const ir::Dims& dims) {
  std::optional<Shape> shape = ir::to_shape(dims);
  TESSERA_ASSERT(shape.has_value(), "a shape must be concrete in a kernel");
  return *std::move(shape);
}

DType dtype_attribute(const AttributeReader& reader, std::string_view name, TypeSet allowed) {
  const std::int64_t number = reader.integer(name);
  require(number > 0 && number < kDTypeCount, ErrorKind::invalid_model,
          "attribute '{}' is {}, which is no element type", name, number);
  const DType type = static_cast<DType>(number);
  require(allowed.contains(type), ErrorKind::invalid_model, "attribute '{}' is {}, expected one of: {}", name,
          name_of(type), text_of(allowed));
  return type;
}

std::vector<std::int64_t> integers_of(const Tensor& tensor) {
  if (tensor.dtype() == DType::i32)
    return {tensor.data<std::int32_t>(), tensor.data<std::int32_t>() + tensor.elements()};
  return {tensor.data<std::int64_t>(), tensor.data<std::int64_t>() + tensor.elements()};
}

std::optional<std::vector<std::int64_t>> constant_integers(const ir::Graph& graph, const ir::Node& node,
                                                           std::size_t input) {
  const Tensor* constant =
      input < node.inputs.size() && node.inputs[input].valid() ? graph.constant(node.inputs[input]) : nullptr;
  if (constant == nullptr || !constant->has_data() || constant->rank() > 1 ||
      (constant->dtype() != DType::i64 && constant->dtype() != DType::i32))
    return std::nullopt;
  return integers_of(*constant);
}

std::int64_t single_integer(const Tensor& tensor, std::string_view name) {
  require(tensor.elements() == 1, ErrorKind::invalid_model, "input '{}' has shape {}, expected one element", name,
          text_of(tensor.shape()));
  return integers_of(tensor)[0];
}

}  // namespace tessera::ops
