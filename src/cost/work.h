// The work of a node of a graph: arithmetic, bytes, and the sizes of its matrix product, if it is one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost/correction.h"
#include "cost/precision.h"
#include "ir/graph.h"
#include "ops/core/op.h"
#include "ops/core/product.h"

namespace tessera::cost {

using ops::Product;

struct Work {
  ir::NodeId node;
  std::string name, op;
  std::string shapes;       // "f32[1, 64, 56, 56] f32[64, 64, 1, 1] -> f32[1, 64, 56, 56]"
  ops::Cost cost;           // in the precision asked for
  double weight_bytes = 0;  // of cost.bytes_read: constants and variables, which a larger batch does not read again
  std::int64_t rows = 0, row = 0;  // of output 0: the product of all dimensions but the last, and the last
  std::int64_t rows_at_once = 0;   // of a recurrent layer: the batch, which is multiplied by R at every step; else 0
  bool product = false;            // done by matrix units where there are any
  bool writes_result = false;      // of the model
  bool element_wise = false;       // each output element comes from elements at the same place
  std::optional<Product> gemm;     // its sizes, where it is one product (or several alike)
  std::string kernel;              // the kernel that runs it, if a plan is known
  Precision precision = Precision::f32;

  double bytes() const { return cost.bytes_read + cost.bytes_written; }
  ShapeClass shape_class() const;
};

// The precision in which float32 tensors are counted: operands of products in `product`, all others in `other`. Other
// element types are counted as they are.
struct WorkPrecision {
  Precision product = Precision::f32, other = Precision::f32;
};

// The work of a node; nothing when the types of its operands are not concrete, or it has subgraphs.
std::optional<Work> work_of(const ir::Graph& graph, ir::NodeId node, WorkPrecision precision = {});

// The work of all nodes in order. `unknown`, if given, receives the number of nodes whose work is not known.
std::vector<Work> work_of(const ir::Graph& graph, WorkPrecision precision = {}, std::int64_t* unknown = nullptr);

// Whether the operator's arithmetic is that of matrix products.
bool is_product(std::string_view op);

}  // namespace tessera::cost
