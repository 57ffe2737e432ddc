// Einsum: sums of products over named indices.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef einsum;

// A parsed equation. Indices are letters; '.' stands for the dimensions of an ellipsis.
struct EinsumEquation {
  std::vector<std::string> inputs;  // one per term
  std::string output;  // explicit, or made by the rule: ellipsis first, then letters that appear once, sorted
};

// Throws Error(invalid_model) for anything that is not an equation over `terms` operands.
EinsumEquation parse_einsum(std::string_view text, std::size_t terms);

// The sizes of the indices of an equation over operands of these shapes.
struct EinsumSizes {
  std::array<std::int64_t, 128> letter{};  // -1: not used
  std::vector<std::int64_t> ellipsis;      // broadcast over all operands, aligned at the last
};
// Throws Error(invalid_model) when ranks or sizes do not agree.
EinsumSizes einsum_sizes(const EinsumEquation& equation, const std::vector<Shape>& shapes);
Shape einsum_output_shape(const EinsumEquation& equation, const EinsumSizes& sizes);

}  // namespace tessera::ops
