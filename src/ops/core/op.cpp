#include "ops/core/op.h"

#include <algorithm>

#include "base/assert.h"
#include "ops/core/infer.h"
#include "ops/core/text_of.h"
#include "ops/symbols.h"

namespace tessera::ops {

std::string to_string(TypeSet types) {
  std::string text;
  for (int i = 1; i < kDTypeCount; ++i) {
    if (types.contains(static_cast<DType>(i)))
      text += (text.empty() ? "" : " ") + std::string(name_of(static_cast<DType>(i)));
  }
  return text;
}

const ir::Attribute* AttributeReader::find(std::string_view name) const {
  if (const auto found = node_->attributes.find(name); found != node_->attributes.end()) return &found->second;
  const ir::Attributes& held = attributes_of_symbol(*node_);
  if (const auto found = held.find(name); found != held.end()) return &found->second;
  for (const AttributeSpec& spec : op_->attributes) {
    if (spec.name == name) return spec.default_value ? &*spec.default_value : nullptr;
  }
  TESSERA_ASSERT(false, "an attribute is read that the operator does not declare");
  return nullptr;
}

template <typename T>
const T& AttributeReader::get(std::string_view name) const {
  const ir::Attribute* attribute = find(name);
  require(attribute != nullptr, ErrorKind::invalid_model, "attribute '{}' is missing", name);
  const T* value = std::get_if<T>(attribute);
  TESSERA_ASSERT(value != nullptr, "an attribute is read as another kind than declared");
  return *value;
}

bool AttributeReader::has_attribute(std::string_view name) const {
  return find(name) != nullptr;
}
std::int64_t AttributeReader::integer(std::string_view name) const {
  return get<std::int64_t>(name);
}
float AttributeReader::real(std::string_view name) const {
  return get<float>(name);
}
const std::string& AttributeReader::text(std::string_view name) const {
  return get<std::string>(name);
}
const Tensor& AttributeReader::tensor(std::string_view name) const {
  return get<Tensor>(name);
}
const std::vector<std::int64_t>& AttributeReader::integers(std::string_view name) const {
  return get<std::vector<std::int64_t>>(name);
}
const std::vector<float>& AttributeReader::reals(std::string_view name) const {
  return get<std::vector<float>>(name);
}
const std::vector<std::string>& AttributeReader::texts(std::string_view name) const {
  return get<std::vector<std::string>>(name);
}
const ir::Graph& AttributeReader::graph(std::string_view name) const {
  return *get<ir::SubgraphPointer>(name);
}
const ir::ValueType& AttributeReader::type(std::string_view name) const {
  return get<ir::ValueType>(name);
}

std::vector<std::int64_t> AttributeReader::integers_or_empty(std::string_view name) const {
  return has_attribute(name) ? integers(name) : std::vector<std::int64_t>{};
}

ir::Attributes AttributeReader::given_among(const std::vector<AttributeSpec>& specs) const {
  ir::Attributes given;
  for (const AttributeSpec& spec : specs) {
    for (const ir::Attributes* attributes : {&std::as_const(node_->attributes), &attributes_of_symbol(*node_)}) {
      if (const auto found = attributes->find(spec.name); found != attributes->end()) given.insert(*found);
    }
  }
  return given;
}

InferContext::InferContext(const ir::Graph& graph, const ir::Node& node, const OpDef& op,
                           const ConstantLookup& constants)
    : AttributeReader(node, op), graph_(&graph), constants_(&constants), results_(node.outputs.size()) {}

const ir::ValueType& InferContext::input(std::size_t i) const {
  TESSERA_ASSERT(has_input(i), "inference reads an absent input");
  return graph_->value(node().inputs[i]).type;
}

const ir::Dims* InferContext::dims(std::size_t i) const {
  const ir::ValueType& type = input(i);
  return type.dims ? &*type.dims : nullptr;
}

const Tensor* InferContext::constant(std::size_t i) const {
  return has_input(i) ? (*constants_)(node().inputs[i]) : nullptr;
}

std::optional<std::vector<std::int64_t>> InferContext::constant_integers(std::size_t i) const {
  const Tensor* tensor = constant(i);
  if (tensor == nullptr) return std::nullopt;
  if (tensor->dtype() == DType::i64)
    return std::vector<std::int64_t>(tensor->data<std::int64_t>(), tensor->data<std::int64_t>() + tensor->elements());
  if (tensor->dtype() == DType::i32)
    return std::vector<std::int64_t>(tensor->data<std::int32_t>(), tensor->data<std::int32_t>() + tensor->elements());
  return std::nullopt;
}

void InferContext::set_output(std::size_t i, ir::ValueType type) {
  if (wants_output(i)) results_[i] = std::move(type);
}

std::vector<ir::ValueType> InferContext::infer_subgraph(std::string_view attribute,
                                                        std::vector<ir::ValueType> formal_inputs) const {
  const ir::Graph& body = graph(attribute);
  const std::size_t captures = static_cast<std::size_t>(node().captures);
  check(body.inputs().size() == formal_inputs.size() + captures, "its subgraph '{}' takes {} inputs, but {} are passed",
        attribute, body.inputs().size() - captures, formal_inputs.size());
  for (std::size_t i = input_count(); i < node().inputs.size(); ++i)
    formal_inputs.push_back(graph_->value(node().inputs[i]).type);
  return ops::infer_subgraph(body, formal_inputs);
}

std::vector<std::size_t> missing_outputs(const ir::Node& node, const OpDef& op) {
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    const bool wanted = i < node.outputs.size() && node.outputs[i].valid();
    if (!wanted && op.outputs[i].option == Parameter::Option::required) missing.push_back(i);
  }
  return missing;
}

Cost cost_of(const NodeView& view) {
  Cost cost;
  bool known = view.output_count() > 0;  // a file may leave all of them out
  for (std::size_t i = 0; i < view.input_count(); ++i)
    known = known && (!view.has_input(i) || view.input(i).dtype != DType::undefined);
  for (std::size_t i = 0; i < view.output_count(); ++i)
    known = known && (!view.wants_output(i) || view.output(i).dtype != DType::undefined);
  if (known && view.op().operations != nullptr) cost.operations = view.op().operations(view);
  if (known && view.op().bytes_read != nullptr) {
    cost.bytes_read = view.op().bytes_read(view);
  } else {
    for (std::size_t i = 0; i < view.input_count(); ++i) {
      if (view.has_input(i) && view.input(i).dtype != DType::undefined)
        cost.bytes_read += static_cast<double>(view.input(i).bytes());
    }
  }
  for (std::size_t i = 0; i < view.output_count(); ++i) {
    if (view.wants_output(i) && view.output(i).dtype != DType::undefined)
      cost.bytes_written += static_cast<double>(view.output(i).bytes());
  }
  if (view.op().view) cost.bytes_read = cost.bytes_written = 0;
  return cost;
}

void infer_same_as_input(InferContext& context) {
  for (std::size_t i = 0; i < context.output_count(); ++i) context.set_output(i, context.input(0));
}

ir::Dims broadcast_dims(const InferContext& context, const ir::Dims& a, const ir::Dims& b) {
  ir::Dims result(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < result.size(); ++i) {
    // Visits dimensions from the innermost one; a missing dimension counts as 1.
    const ir::Dim left = i < a.size() ? a[a.size() - 1 - i] : ir::Dim(1);
    const ir::Dim right = i < b.size() ? b[b.size() - 1 - i] : ir::Dim(1);
    ir::Dim& out = result[result.size() - 1 - i];
    if (left.is_known() && left.value() == 1) out = right;
    else if (right.is_known() && right.value() == 1) out = left;
    else if (left.is_known() && right.is_known()) {
      context.check(left.value() == right.value(), "shapes {} and {} do not broadcast", text_of(a), text_of(b));
      out = left;
    } else if (left.is_known()) out = left;  // the other must be 1 or equal to it
    else if (right.is_known()) out = right;
    else if (left.surely_equals(right)) out = left;
  }
  return result;
}

void infer_broadcast(InferContext& context) {
  std::optional<ir::Dims> dims = ir::Dims{};
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    if (!context.has_input(i)) continue;
    const ir::Dims* next = context.dims(i);
    if (next == nullptr || !dims) dims.reset();
    else dims = broadcast_dims(context, *dims, *next);
  }
  ir::ValueType type = ir::ValueType::tensor(context.dtype(0));
  type.dims = std::move(dims);
  context.set_output(0, std::move(type));
}

std::int64_t normalise_axis(std::int64_t axis, std::int64_t rank) {
  require(axis >= -rank && axis < rank, ErrorKind::invalid_model, "axis {} is outside [{}, {}) of a tensor of rank {}",
          axis, -rank, rank, rank);
  return axis < 0 ? axis + rank : axis;
}

}  // namespace tessera::ops
