// equal_attributes() of equal.h, and structurally_equal() of graph.h: walks both graphs in order and maps the handles
// of one to those of the other.
#include "ir/equal.h"

#include <algorithm>
#include <bit>
#include <map>

#include "ir/graph.h"

namespace tessera::ir {
namespace {

bool same(std::int64_t a, std::int64_t b) {
  return a == b;
}
bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}
bool same(const std::string& a, const std::string& b) {
  return a == b;
}
bool same(const ValueType& a, const ValueType& b) {
  return a == b;
}
bool same(const SubgraphPointer& a, const SubgraphPointer& b) {
  return a == b || (a != nullptr && b != nullptr && structurally_equal(*a, *b));
}
bool same(const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype() && a.shape() == b.shape() && a.shares_storage_with(b)) return true;
  return identical(a, b);
}
template <typename T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const T& x, const T& y) { return same(x, y); });
}

class Comparison {
 public:
  Comparison(const Graph& a, const Graph& b) : a_(a), b_(b), map_(a.value_count()), inverse_(b.value_count()) {}

  bool run() {
    return a_.name == b_.name && a_.metadata == b_.metadata && match(a_.inputs(), b_.inputs()) && variables_match() &&
           nodes_match() && match(a_.outputs(), b_.outputs()) && updates_match() && unused_constants_match();
  }

 private:
  // Whether handles match: they were mapped to each other, or are seen for the first time and have equal descriptions.
  bool match(ValueId a, ValueId b) {
    if (!a.valid() || !b.valid()) return a.valid() == b.valid();
    ValueId& image = map_[static_cast<std::size_t>(a.index)];
    ValueId& preimage = inverse_[static_cast<std::size_t>(b.index)];
    if (image.valid() || preimage.valid()) return image == b && preimage == a;
    const ValueInfo& x = a_.value(a);
    const ValueInfo& y = b_.value(b);
    if (x.name != y.name || !(x.type == y.type) || x.origin != y.origin || x.output_index != y.output_index)
      return false;
    const Tensor* constant = a_.constant(a);
    const Tensor* other = b_.constant(b);
    if ((constant == nullptr) != (other == nullptr) || (constant != nullptr && !same(*constant, *other))) return false;
    image = b;
    preimage = a;
    return true;
  }

  bool match(const std::vector<ValueId>& a, const std::vector<ValueId>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [this](ValueId x, ValueId y) { return match(x, y); });
  }

  bool variables_match() {
    const auto equal = [this](const Variable& x, const Variable& y) {
      return x.name == y.name && match(x.read, y.read) && same(x.initial, y.initial);
    };
    return std::equal(a_.variables().begin(), a_.variables().end(), b_.variables().begin(), b_.variables().end(),
                      equal);
  }

  bool updates_match() {
    const auto equal = [this](const Variable& x, const Variable& y) { return match(x.update, y.update); };
    return std::equal(a_.variables().begin(), a_.variables().end(), b_.variables().begin(), b_.variables().end(),
                      equal);
  }

  bool nodes_match() {
    return std::equal(
        a_.order().begin(), a_.order().end(), b_.order().begin(), b_.order().end(), [this](NodeId x, NodeId y) {
          const Node& a = a_.node(x);
          const Node& b = b_.node(y);
          return a.op == b.op && a.name == b.name && a.captures == b.captures && match(a.inputs, b.inputs) &&
                 match(a.outputs, b.outputs) && equal_attributes(a.attributes, b.attributes);
        });
  }

  // Constants by name that no handle was mapped from; their order does not matter.
  static std::map<std::string, const Tensor*> unused_constants(const Graph& graph, const std::vector<ValueId>& mapped) {
    std::map<std::string, const Tensor*> result;
    for (std::size_t i = 0; i < mapped.size(); ++i) {
      const ValueId id{static_cast<std::int32_t>(i)};
      if (graph.is_constant(id) && !mapped[i].valid()) result.emplace(graph.value(id).name, graph.constant(id));
    }
    return result;
  }

  bool unused_constants_match() const {
    const auto x = unused_constants(a_, map_);
    const auto y = unused_constants(b_, inverse_);
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [](const auto& p, const auto& q) { return p.first == q.first && same(*p.second, *q.second); });
  }

  const Graph& a_;
  const Graph& b_;
  std::vector<ValueId> map_;
  std::vector<ValueId> inverse_;
};

}  // namespace

bool equal_attributes(const Attributes& a, const Attributes& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    if (x.first != y.first || x.second.index() != y.second.index()) return false;
    return std::visit([&](const auto& value) { return same(value, std::get<std::decay_t<decltype(value)>>(y.second)); },
                      x.second);
  });
}

bool structurally_equal(const Graph& a, const Graph& b) {
  return &a == &b || Comparison(a, b).run();
}

}  // namespace tessera::ir
