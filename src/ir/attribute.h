// Typed attributes of a node.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/type.h"

namespace tessera::ir {

class Graph;
// A subgraph (a branch of If, the body of Loop or Scan). Immutable and closed: it refers to nothing outside itself, so
// copies of a node share it; a pass that changes it puts a new one in its place.
using SubgraphPointer = std::shared_ptr<const Graph>;

using Attribute =
    std::variant<std::int64_t, float, std::string, Tensor, SubgraphPointer, ValueType, std::vector<std::int64_t>,
                 std::vector<float>, std::vector<std::string>, std::vector<Tensor>>;

enum class AttributeKind : std::uint8_t { integer, real, text, tensor, graph, type, integers, reals, texts, tensors };
inline AttributeKind kind_of(const Attribute& attribute) {
  return static_cast<AttributeKind>(attribute.index());
}
std::string_view to_string(AttributeKind kind);

// Ordered by name, so that printing and hashing are deterministic.
using Attributes = std::map<std::string, Attribute, std::less<>>;

}  // namespace tessera::ir
