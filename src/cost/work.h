// What a node of a graph asks of a device: arithmetic, bytes, and the matrix product that it is, if it is one.
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
  std::int64_t rows = 0, row = 0;  // of output 0: all dimensions but the last, and the last
  std::int64_t rows_at_once = 0;   // of a recurrent layer: the batch, which is multiplied by R at every step; else 0
  bool product = false;            // done by matrix units where there are any
  bool writes_result = false;      // of the model
  bool element_wise = false;       // each output element comes from elements at the same place
  std::optional<Product> gemm;     // its sizes, where it is one product (or several alike)
  std::string kernel;              // that runs it, where a plan says so
  Precision precision = Precision::f32;

  double bytes() const { return cost.bytes_read + cost.bytes_written; }
  ShapeClass shape_class() const;
};

// How tensors of float32 count: those of products in `product`, of all else in `other`. Other element types count as
// they are.
struct WorkPrecision {
  Precision product = Precision::f32, other = Precision::f32;
};

// Nothing when the types of the node's operands are not concrete, or it has subgraphs.
std::optional<Work> work_of(const ir::Graph& graph, ir::NodeId node, WorkPrecision precision = {});

// Of all nodes in order. `unknown`, if given, receives the number of nodes that have none.
std::vector<Work> work_of(const ir::Graph& graph, WorkPrecision precision = {}, std::int64_t* unknown = nullptr);

// Whether the operator's arithmetic is that of matrix products.
bool is_product(std::string_view op);

}  // namespace tessera::cost
