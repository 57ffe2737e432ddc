// Constant weights of a product that are mostly zero: which form of them is fast, and where the others are. Weights are
// cut into panels of as many outputs as a vector has elements, so that a vector is one input's weights of a panel.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/core/op.h"

namespace tessera::backends::cpu {

// A matrix as it lies in memory; strides count elements.
struct WeightMatrix {
  const float* data = nullptr;
  std::int64_t inputs = 0, outputs = 0, input_stride = 0, output_stride = 0;

  float at(std::int64_t input, std::int64_t output) const {
    return data[input * input_stride + output * output_stride];
  }
};

enum class SparseForm : std::uint8_t {
  dense,        // no form is expected to be faster than the dense product
  blocks,       // vectors that are not all zero, and their inputs
  two_of_four,  // of four inputs in a row, two weights of each output, and which
  segments,     // of each segment of inputs in a row, the weights of each output that are not zero, and their inputs
};

struct SparseCounts {
  std::int64_t weights = 0, nonzero = 0;
  std::int64_t panels = 0, vectors = 0, nonzero_vectors = 0;
  std::int64_t slots = 0;    // vectors of the form `segments`
  bool two_of_four = false;  // no output has more than two of each four inputs
};

SparseCounts count_sparse(const WeightMatrix& weights, int lanes);
// What is expected to be the fastest for a product with so many rows; the figures behind it are in docs/sparsity.md.
// `bf16`: of weights in bfloat16, beside a dense product in bfloat16.
SparseForm choose_form(const SparseCounts& counts, std::int64_t rows, int lanes, bool bf16 = false);

// Where the weights of a form are. The values are apart, in one array of `floats`; those of panel i begin at
// value_starts[i].
struct SparseWeights {
  SparseForm form = SparseForm::dense;
  std::int64_t inputs = 0, outputs = 0, floats = 0;
  int lanes = 0;
  std::vector<std::int64_t> value_starts;
  // blocks: the inputs of panel i's vectors are places[place_starts[i]] up to place_starts[i + 1].
  std::vector<std::int64_t> place_starts;
  std::vector<std::uint32_t> places;
  // two_of_four: of eight groups, a word a lane; bits 4 g to 4 g + 3 are the two places within group g.
  std::vector<std::uint32_t> words;
  // segments: how many vectors each segment of each panel has, and the places within the segment, a byte a lane.
  std::vector<std::uint8_t> slots, bytes;
  std::vector<std::int64_t> byte_starts;  // of each panel

  std::int64_t panels() const { return (outputs + lanes - 1) / lanes; }
};

// Inputs of a segment, and of a word of two_of_four (eight groups of four).
inline constexpr std::int64_t kSegment = 32;

SparseWeights find_weights(const WeightMatrix& weights, SparseForm form, int lanes);
// Writes the values in the order of the form.
void pack_values(const WeightMatrix& weights, const SparseWeights& where, float* to);

}  // namespace tessera::backends::cpu
