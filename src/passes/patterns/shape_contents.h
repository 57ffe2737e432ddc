// The contents of small integer tensors as far as they are known before sizes are: numbers and names of dimensions.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tessera::passes {

// A number, a dimension by its name, or unknown. Numbers may be negative; dimensions are not.
struct ShapeElement {
  std::optional<std::int64_t> number;
  std::string symbol;

  static ShapeElement of(const ir::Dim& dim);
  bool is_known() const { return number || !symbol.empty(); }
  // The element as the size of a dimension; unknown for a negative number.
  ir::Dim dim() const;
  friend bool operator==(const ShapeElement&, const ShapeElement&) = default;
};

// The elements of integer tensors and conditions of rank 0 and 1 that shape arithmetic passes on.
class ShapeContents {
 public:
  // Infers the contents of the node's outputs. Nodes must be passed in order, with inferred types.
  void learn(const ir::Graph& graph, const ir::Node& node);
  // The elements of a value; nothing where its type is another one or its length is not known. True is 1.
  std::optional<std::vector<ShapeElement>> of(const ir::Graph& graph, ir::ValueId value) const;
  // The value as a constant if all of its elements are numbers; nothing if it is a constant already.
  std::optional<Tensor> tensor_of(const ir::Graph& graph, ir::ValueId value) const;

 private:
  std::map<ir::ValueId, std::vector<ShapeElement>> contents_;
};

}  // namespace tessera::passes
