#include "ops/core/builder.h"

#include "base/error.h"
#include "base/numbers/half.h"
#include "ops/core/infer.h"

namespace tessera::ops {

std::vector<ir::ValueId> GraphBuilder::add_multi(std::string op, std::vector<ir::ValueId> inputs, std::size_t outputs,
                                                 ir::Attributes attributes, std::vector<ir::ValueId> captures) {
  ir::Node node{
      std::move(op), "", std::move(inputs), {}, std::move(attributes), static_cast<std::int32_t>(captures.size())};
  node.inputs.insert(node.inputs.end(), captures.begin(), captures.end());
  node.name = graph_->fresh_name(prefix_ + node.op);
  for (std::size_t i = 0; i < outputs; ++i)
    node.outputs.push_back(
        graph_->add_value(outputs == 1 ? node.name + ":out" : fmt::format("{}:out{}", node.name, i)));
  const std::vector<ir::ValueId> result = node.outputs;
  const std::vector<ir::ValueType> types =
      infer_node(*graph_, node, [this](ir::ValueId id) { return graph_->constant(id); });
  for (std::size_t i = 0; i < outputs; ++i) graph_->value(result[i]).type = types[i];
  graph_->add_node(std::move(node));
  return result;
}

ir::ValueId GraphBuilder::cast(ir::ValueId value, DType to) {
  return dtype(value) == to ? value : add("Cast", {value}, {{"to", static_cast<std::int64_t>(to)}});
}

ir::ValueId GraphBuilder::integers(std::vector<std::int64_t> values) {
  const Shape shape{static_cast<std::int64_t>(values.size())};
  return constant(Tensor::from<std::int64_t>(shape, std::span<const std::int64_t>(values)));
}

ir::ValueId GraphBuilder::scalar(double value, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return constant(Tensor::scalar(static_cast<float>(value)));
    case DType::f64:
      return constant(Tensor::scalar(value));
    case DType::f16:
      return constant(Tensor::scalar(base::to_f16(value)));
    case DType::bf16:
      return constant(Tensor::scalar(base::to_bf16(value)));
    case DType::i8:
      return constant(Tensor::scalar(static_cast<std::int8_t>(value)));
    case DType::i16:
      return constant(Tensor::scalar(static_cast<std::int16_t>(value)));
    case DType::i32:
      return constant(Tensor::scalar(static_cast<std::int32_t>(value)));
    case DType::i64:
      return constant(Tensor::scalar(static_cast<std::int64_t>(value)));
    case DType::u8:
      return constant(Tensor::scalar(static_cast<std::uint8_t>(value)));
    case DType::u16:
      return constant(Tensor::scalar(static_cast<std::uint16_t>(value)));
    case DType::u32:
      return constant(Tensor::scalar(static_cast<std::uint32_t>(value)));
    case DType::u64:
      return constant(Tensor::scalar(static_cast<std::uint64_t>(value)));
    case DType::boolean:
      return constant(Tensor::scalar(value != 0));
    default:
      fail(ErrorKind::unsupported, "no scalar constant of type {}", name_of(dtype));
  }
}

const ir::Dims* GraphBuilder::dims(ir::ValueId id) const {
  return type(id).dims ? &*type(id).dims : nullptr;
}

}  // namespace tessera::ops
