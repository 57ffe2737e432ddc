// Queries about a graph that passes use to match patterns.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ops/core/op.h"
#include "ops/core/shape_arguments.h"
#include "ops/movement/slice.h"

namespace tessera::passes {

// The node of that operator that produces the value, or null.
const ir::Node* producer_of(const ir::Graph& graph, ir::ValueId value, std::string_view op);
// The value at the begin of the chain of Identity nodes that ends in `value`.
ir::ValueId source_of(const ir::Graph& graph, ir::ValueId value);
bool has_trait(const ir::Node& node, ops::Trait trait);
// The attribute, or `otherwise` if the node does not state it.
std::int64_t integer_of(const ir::Node& node, const std::string& attribute, std::int64_t otherwise);
// Null while the rank is unknown.
const ir::Dims* dims_of(const ir::Graph& graph, ir::ValueId value);
// The number in a constant of one float32 element; nothing for other values.
std::optional<double> number_of(const ir::Graph& graph, ir::ValueId value);
// Whether the value is used other than by nodes: as an output of the graph, or as the update of a variable.
bool is_result(const ir::Graph& graph, ir::ValueId value);
// The permutation of a Transpose whose input has that rank.
std::vector<std::int64_t> permutation_of(const ir::Node& transpose, std::size_t rank);
// The x of rank 4 of which the value is a copy with the last two axes swapped, computed by way of [a · b, c, d] as
// torch exports it: a Reshape that joins the first two axes, a Transpose, and a Reshape that splits them. Nothing where
// the value is computed in another way.
std::optional<ir::ValueId> transposed_in_batches(const ir::Graph& graph, ir::ValueId value);
// The number in a constant of one element of type f32, f64, f16, bf16, i32 or i64; nothing for other values.
std::optional<double> scalar_of(const ir::Graph& graph, ir::ValueId value);
// The axes that a Reduce node reduces, sorted; nothing where they are computed, or the rank is unknown.
std::optional<std::vector<std::int64_t>> reduced_axes(const ir::Graph& graph, const ir::Node& reduce);
// Whether only these nodes and `last` use the outputs of these nodes (without `last`). `uses` is a snapshot of the
// uses.
bool is_closed(const ir::Graph& graph, const std::vector<std::vector<ir::NodeId>>& uses,
               const std::vector<ir::NodeId>& nodes, ir::NodeId last);
// Whether the value's shape is that of x with 1 for the axes.
bool is_statistic(const ir::Graph& graph, ir::ValueId value, ir::ValueId x, const std::vector<std::int64_t>& axes);
// Whether both ranks are known and all dimensions are surely equal.
bool same_dims(const ir::Graph& graph, ir::ValueId a, ir::ValueId b);
bool surely_equal(const ir::Dims& a, const ir::Dims& b);
// Whether `shape` is computed as the shape of x.
bool is_shape_of(const ir::Graph& graph, ir::ValueId shape, ir::ValueId x);
// Whether a LayerNormalization or RMSNormalization of float32 normalises the last axis with constants of one element
// for each of its positions, and its statistics are not used.
bool normalises_rows(const ir::Graph& graph, const ir::Node& node);
// Whether the value is a constant all of whose elements are this number, of any real or integer type.
bool is_filled_with(const ir::Graph& graph, ir::ValueId value, double number);

using ops::constant_integers;
using ops::slice_request_of;

}  // namespace tessera::passes
