// Small questions about a graph that passes ask when they look for a pattern.
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

// The node of that operator that makes the value, or null.
const ir::Node* producer_of(const ir::Graph& graph, ir::ValueId value, std::string_view op);
// The value that a chain of Identity nodes passes on as `value`.
ir::ValueId source_of(const ir::Graph& graph, ir::ValueId value);
bool has_trait(const ir::Node& node, ops::Trait trait);
// The attribute, or what it is where the node has none.
std::int64_t integer_of(const ir::Node& node, const std::string& attribute, std::int64_t otherwise);
// Null while the rank is unknown.
const ir::Dims* dims_of(const ir::Graph& graph, ir::ValueId value);
// The number that a constant of one float32 element holds.
std::optional<double> number_of(const ir::Graph& graph, ir::ValueId value);
// Whether something other than nodes uses the value: an output of the graph, or what a variable becomes.
bool is_result(const ir::Graph& graph, ir::ValueId value);
// Of a Transpose whose input has that rank.
std::vector<std::int64_t> permutation_of(const ir::Node& transpose, std::size_t rank);
// x of rank 4 whose last two axes the value swaps by way of [a · b, c, d]: a Reshape that joins the first two, a
// Transpose, and a Reshape that parts them again, as torch exports it. Nothing where the value is made in another way.
std::optional<ir::ValueId> transposed_in_batches(const ir::Graph& graph, ir::ValueId value);
// The number that a constant of one element holds, of f32, f64, f16, bf16, i32 or i64.
std::optional<double> scalar_of(const ir::Graph& graph, ir::ValueId value);
// The axes that a Reduce node reduces, sorted; nothing where they are computed, or the rank is unknown.
std::optional<std::vector<std::int64_t>> reduced_axes(const ir::Graph& graph, const ir::Node& reduce);
// Whether nothing but these nodes and `last` uses what these nodes (`last` left out) give. `uses` is a snapshot.
bool is_closed(const ir::Graph& graph, const std::vector<std::vector<ir::NodeId>>& uses,
               const std::vector<ir::NodeId>& nodes, ir::NodeId last);
// Whether the value's shape is that of x with 1 for the axes.
bool is_statistic(const ir::Graph& graph, ir::ValueId value, ir::ValueId x, const std::vector<std::int64_t>& axes);
// Both ranks are known, and all dimensions surely equal.
bool same_dims(const ir::Graph& graph, ir::ValueId a, ir::ValueId b);
bool surely_equal(const ir::Dims& a, const ir::Dims& b);
// Whether `shape` is computed as the shape of x.
bool is_shape_of(const ir::Graph& graph, ir::ValueId shape, ir::ValueId x);
// Whether a LayerNormalization or RMSNormalization is of float32, over the last axis, by constants with an element for
// each of its positions, and wanted without the statistics.
bool normalises_rows(const ir::Graph& graph, const ir::Node& node);
// Whether the value is a constant all of whose elements are this number, of any real or integer type.
bool is_filled_with(const ir::Graph& graph, ir::ValueId value, double number);

using ops::constant_integers;
using ops::slice_request_of;

}  // namespace tessera::passes
