// Reads arguments that operators on shapes have in common: lists of axes, lengths of 1-D inputs, element types.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ops/core/op.h"

namespace tessera::ops {

// The highest rank that inference makes; higher requests are refused.
inline constexpr std::int64_t max_rank = 64;

// The length of 1-D input i when it is known. Throws Error(invalid_model) when the input is not 1-D.
std::optional<std::int64_t> known_length(const InferContext& context, std::size_t i);

// `rank` unknown dimensions; throws Error(invalid_model) when rank is negative or above max_rank.
ir::Dims unknown_dims(std::int64_t rank);

// Axes in [-rank, rank) as [0, rank), in the given order; throws Error(invalid_model) on one outside or repeated.
std::vector<std::int64_t> normalise_axes(std::span<const std::int64_t> axes, std::int64_t rank);

// The axes 0, 1 … rank - 1.
std::vector<std::int64_t> all_axes(std::int64_t rank);

// The more specific of two descriptions of one dimension; throws Error(invalid_model) when both are known and differ.
ir::Dim same_dim(const ir::Dim& a, const ir::Dim& b);

// The shape of dimensions that are all numbers; anything else is a bug in Tessera.
Shape concrete_shape(const ir::Dims& dims);

// The element type that an attribute names by its ONNX number; throws Error(invalid_model) unless it is in `allowed`.
DType dtype_attribute(const AttributeReader& reader, std::string_view name, TypeSet allowed);

// The elements of a 1-D or scalar i32 or i64 tensor.
std::vector<std::int64_t> integers_of(const Tensor& tensor);

// The elements of a constant input of the node, of type i64 or i32 and rank 0 or 1; nothing where the input is absent,
// not constant, or of another type or rank.
std::optional<std::vector<std::int64_t>> constant_integers(const ir::Graph& graph, const ir::Node& node,
                                                           std::size_t input);

// The only element of an integer tensor of any rank; throws Error(invalid_model) when there is not exactly one.
std::int64_t single_integer(const Tensor& tensor, std::string_view name);

}  // namespace tessera::ops
