#include "passes/patterns/shape_contents.h"

#include <algorithm>

#include "ops/core/shape_arguments.h"
#include "ops/op_table.h"
#include "ops/values/shape_of.h"
#include "passes/find.h"

namespace tessera::passes {
namespace {

using Elements = std::vector<ShapeElement>;
using KnownElements = std::optional<Elements>;

// Longer ones are data.
constexpr std::size_t kMostShapeElements = 64;

ShapeElement number(std::int64_t value) {
  return {value, {}};
}

KnownElements constant_elements(const Tensor& tensor) {
  if (!tensor.has_data() || tensor.shape().size() > 1 ||
      tensor.elements() > static_cast<std::int64_t>(kMostShapeElements))
    return std::nullopt;
  Elements elements;
  if (tensor.dtype() == DType::i64)
    std::ranges::transform(tensor.values<std::int64_t>(), std::back_inserter(elements), number);
  else if (tensor.dtype() == DType::i32)
    std::ranges::transform(tensor.values<std::int32_t>(), std::back_inserter(elements), number);
  else if (tensor.dtype() == DType::boolean)
    std::ranges::transform(tensor.values<bool>(), std::back_inserter(elements), number);
  else return std::nullopt;
  return elements;
}

ShapeElement sum(const ShapeElement& a, const ShapeElement& b) {
  std::int64_t result = 0;
  if (a.number && b.number)
    return __builtin_add_overflow(*a.number, *b.number, &result) ? ShapeElement{} : number(result);
  return a.number == 0 ? b : b.number == 0 ? a : ShapeElement{};
}
ShapeElement difference(const ShapeElement& a, const ShapeElement& b) {
  std::int64_t result = 0;
  if (a.number && b.number)
    return __builtin_sub_overflow(*a.number, *b.number, &result) ? ShapeElement{} : number(result);
  if (a.is_known() && a == b) return number(0);
  return b.number == 0 ? a : ShapeElement{};
}
ShapeElement product(const ShapeElement& a, const ShapeElement& b) {
  std::int64_t result = 0;
  if (a.number && b.number)
    return __builtin_mul_overflow(*a.number, *b.number, &result) ? ShapeElement{} : number(result);
  return a.number == 1 ? b : b.number == 1 ? a : ShapeElement{};
}
ShapeElement quotient(const ShapeElement& a, const ShapeElement& b) {
  if (a.number && b.number && *a.number >= 0 && *b.number > 0) return number(*a.number / *b.number);
  return b.number == 1 ? a : ShapeElement{};
}
ShapeElement remainder(const ShapeElement& a, const ShapeElement& b) {
  if (a.number && b.number && *a.number >= 0 && *b.number > 0) return number(*a.number % *b.number);
  return {};
}
ShapeElement smaller(const ShapeElement& a, const ShapeElement& b) {
  if (a.is_known() && a == b) return a;
  return a.number && b.number ? number(std::min(*a.number, *b.number)) : ShapeElement{};
}
ShapeElement larger(const ShapeElement& a, const ShapeElement& b) {
  if (a.is_known() && a == b) return a;
  return a.number && b.number ? number(std::max(*a.number, *b.number)) : ShapeElement{};
}
ShapeElement equal(const ShapeElement& a, const ShapeElement& b) {
  if (!a.is_known() || !b.is_known()) return {};
  if (a == b) return number(1);
  if (a.number && b.number) return number(0);
  const std::optional<std::int64_t>& other = a.number ? a.number : b.number;
  return other && *other < 0 ? number(0) : ShapeElement{};  // a dimension is not negative
}
ShapeElement negated(const ShapeElement& condition) {
  return condition.number ? number(*condition.number == 0 ? 1 : 0) : ShapeElement{};
}

using Arithmetic = ShapeElement (*)(const ShapeElement&, const ShapeElement&);
// The function that computes an operator of two operands on elements.
Arithmetic arithmetic_of(std::string_view op) {
  if (op == "Add") return sum;
  if (op == "Sub") return difference;
  if (op == "Mul") return product;
  if (op == "Div") return quotient;
  if (op == "Mod") return remainder;
  if (op == "Min") return smaller;
  if (op == "Max") return larger;
  return op == "Equal" ? equal : nullptr;
}

// Element i of a list that broadcasts.
const ShapeElement& at(const Elements& elements, std::size_t i) {
  return elements[elements.size() == 1 ? 0 : i];
}

// The length to which lists of these lengths broadcast; nothing where they do not.
std::optional<std::size_t> common_length(std::initializer_list<const Elements*> lists) {
  std::size_t length = 1;
  for (const Elements* list : lists) {
    if (list->size() != 1 && length != 1 && list->size() != length) return std::nullopt;
    if (list->size() != 1) length = list->size();
  }
  return length;
}

// Evaluates the nodes of shape arithmetic as far as their inputs are known.
class Learner {
 public:
  Learner(const ShapeContents& contents, const ir::Graph& graph, const ir::Node& node)
      : contents_(contents), graph_(graph), node_(node) {}

  KnownElements result() const {
    const std::string& op = node_.op;
    if (op == "Shape") return shape();
    if (op == "Identity" || op == "Squeeze" || op == "Unsqueeze" || op == "Reshape" || op == "Cast") return input(0);
    if (op == "Concat") return joined();
    if (op == "Gather") return gathered();
    if (op == "Slice") return sliced();
    if (op == "Where") return chosen();
    if (op == "Not") return mapped(negated);
    if (const Arithmetic arithmetic = arithmetic_of(op); arithmetic && node_.inputs.size() == 2)
      return combined(arithmetic);
    return std::nullopt;
  }

 private:
  KnownElements input(std::size_t i) const {
    return i < node_.inputs.size() ? contents_.of(graph_, node_.inputs[i]) : std::nullopt;
  }
  std::size_t rank(std::size_t i) const {
    const ir::Dims* dims = dims_of(graph_, node_.inputs[i]);
    return dims == nullptr ? 0 : dims->size();
  }

  KnownElements shape() const {
    const ir::Dims* dims = dims_of(graph_, node_.inputs[0]);
    if (dims == nullptr) return std::nullopt;
    const ops::DimRange range =
        ops::shape_range(ops::AttributeReader(node_, ops::op_of(node_)), static_cast<std::int64_t>(dims->size()));
    Elements elements;
    for (std::int64_t i = range.first; i < range.last; ++i)
      elements.push_back(ShapeElement::of((*dims)[static_cast<std::size_t>(i)]));
    return elements;
  }
  KnownElements joined() const {
    Elements elements;
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) {
      const KnownElements part = input(i);
      if (!part) return std::nullopt;
      elements.insert(elements.end(), part->begin(), part->end());
    }
    return elements;
  }
  KnownElements gathered() const {
    const KnownElements data = input(0), places = input(1);
    if (!data || !places || rank(0) != 1) return std::nullopt;
    Elements elements;
    const auto size = static_cast<std::int64_t>(data->size());
    for (const ShapeElement& place : *places) {
      if (!place.number || *place.number < -size || *place.number >= size) return std::nullopt;
      elements.push_back((*data)[static_cast<std::size_t>(*place.number < 0 ? *place.number + size : *place.number)]);
    }
    return elements;
  }
  KnownElements sliced() const {
    const KnownElements data = input(0);
    const std::optional<ops::SliceRequest> request = slice_request_of(graph_, node_);
    if (!data || !request || request->starts.size() != 1) return std::nullopt;
    const ops::SliceRange range = ops::slice_range(static_cast<std::int64_t>(data->size()), request->starts[0],
                                                   request->ends[0], request->steps[0]);
    Elements elements;
    for (std::int64_t i = 0; i < range.count; ++i)
      elements.push_back((*data)[static_cast<std::size_t>(range.start + i * range.step)]);
    return elements;
  }
  KnownElements chosen() const {
    const KnownElements condition = input(0), a = input(1), b = input(2);
    const std::optional<std::size_t> length =
        condition && a && b ? common_length({&*condition, &*a, &*b}) : std::nullopt;
    if (!length) return std::nullopt;
    Elements elements;
    for (std::size_t i = 0; i < *length; ++i) {
      const ShapeElement& each = at(*condition, i);
      elements.push_back(each.number              ? at(*each.number != 0 ? *a : *b, i)
                         : at(*a, i) == at(*b, i) ? at(*a, i)
                                                  : ShapeElement{});
    }
    return elements;
  }
  KnownElements combined(Arithmetic arithmetic) const {
    const KnownElements a = input(0), b = input(1);
    const std::optional<std::size_t> length = a && b ? common_length({&*a, &*b}) : std::nullopt;
    if (!length) return std::nullopt;
    Elements elements;
    for (std::size_t i = 0; i < *length; ++i) elements.push_back(arithmetic(at(*a, i), at(*b, i)));
    return elements;
  }
  KnownElements mapped(ShapeElement (*map)(const ShapeElement&)) const {
    KnownElements elements = input(0);
    if (elements) std::ranges::transform(*elements, elements->begin(), map);
    return elements;
  }

  const ShapeContents& contents_;
  const ir::Graph& graph_;
  const ir::Node& node_;
};

bool fits(std::int64_t value, DType type) {
  if (type == DType::boolean) return value == 0 || value == 1;
  return type == DType::i64 || (value >= INT32_MIN && value <= INT32_MAX);
}

}  // namespace

ShapeElement ShapeElement::of(const ir::Dim& dim) {
  return dim.is_known() ? ShapeElement{dim.value(), {}} : ShapeElement{std::nullopt, dim.name()};
}

ir::Dim ShapeElement::dim() const {
  if (number) return *number >= 0 ? ir::Dim(*number) : ir::Dim();
  return symbol.empty() ? ir::Dim() : ir::Dim::symbol(symbol);
}

void ShapeContents::learn(const ir::Graph& graph, const ir::Node& node) {
  if (node.inputs.empty() || node.outputs.size() != 1 || !node.outputs[0].valid()) return;
  const ir::ValueType& type = graph.value(node.outputs[0]).type;
  const bool holds =
      type.is_tensor() && (type.dtype == DType::i64 || type.dtype == DType::i32 || type.dtype == DType::boolean);
  if (!holds || !type.dims || type.dims->size() > 1) return;
  KnownElements result = Learner(*this, graph, node).result();
  // A condition is not a size; a number beyond its type's range wraps around or fails.
  if (result && type.dtype == DType::boolean)
    std::ranges::replace_if(*result, [](const ShapeElement& each) { return !each.number; }, ShapeElement{});
  const bool fails = result && std::ranges::any_of(*result, [&](const ShapeElement& each) {
                       return each.number && !fits(*each.number, type.dtype);
                     });
  if (!result || fails || result->size() > kMostShapeElements || (type.dims->empty() && result->size() != 1)) return;
  contents_[node.outputs[0]] = std::move(*result);
}

std::optional<Elements> ShapeContents::of(const ir::Graph& graph, ir::ValueId value) const {
  if (!value.valid()) return std::nullopt;
  if (const Tensor* constant = graph.constant(value)) return constant_elements(*constant);
  const auto found = contents_.find(value);
  return found == contents_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Tensor> ShapeContents::tensor_of(const ir::Graph& graph, ir::ValueId value) const {
  const auto found = contents_.find(value);
  if (found == contents_.end() || graph.is_constant(value)) return std::nullopt;
  const Elements& elements = found->second;
  if (!std::ranges::all_of(elements, [](const ShapeElement& each) { return each.number.has_value(); }))
    return std::nullopt;
  const ir::ValueType& type = graph.value(value).type;
  Tensor tensor(type.dtype, type.dims->empty() ? Shape{} : Shape{static_cast<std::int64_t>(elements.size())});
  const auto write = [&]<typename T>(T* to) {
    std::ranges::transform(elements, to, [](const ShapeElement& each) { return static_cast<T>(*each.number); });
  };
  if (type.dtype == DType::i64) write(tensor.mutable_data<std::int64_t>());
  else if (type.dtype == DType::i32) write(tensor.mutable_data<std::int32_t>());
  else write(tensor.mutable_data<bool>());
  return tensor;
}

}  // namespace tessera::passes
