// Constant weights that are mostly zero: which storage form is fast, and where the nonzero weights are. Weights are cut
// into panels of as many outputs as a vector has lanes, so that a vector holds the weights of one input in a panel.
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
  blocks,       // stores vectors that are not all zero, and their inputs
  two_of_four,  // stores two weights per output of every four consecutive inputs, and which
  segments,     // stores per segment of inputs the nonzero weights of each output, and their inputs
};

struct SparseCounts {
  std::int64_t weights = 0, nonzero = 0;
  std::int64_t panels = 0, vectors = 0, nonzero_vectors = 0;
  std::int64_t slots = 0;    // vectors of the form `segments`
  bool two_of_four = false;  // no output has more than two of each four inputs
};

SparseCounts count_sparse(const WeightMatrix& weights, int lanes);
// Returns the form that is expected to be the fastest for a product with `rows` rows; docs/sparsity.md has the
// measurements. `bf16`: weights in bfloat16, compared with a dense bfloat16 product.
SparseForm choose_form(const SparseCounts& counts, std::int64_t rows, int lanes, bool bf16 = false);

// Positions of the weights in a form. The values are in a separate array of `floats`; those of panel i begin at
// value_starts[i].
struct SparseWeights {
  SparseForm form = SparseForm::dense;
  std::int64_t inputs = 0, outputs = 0, floats = 0;
  int lanes = 0;
  std::vector<std::int64_t> value_starts;
  // blocks: the inputs of panel i's vectors are places[place_starts[i]] to places[place_starts[i + 1] - 1].
  std::vector<std::int64_t> place_starts;
  std::vector<std::uint32_t> places;
  // two_of_four: one word per lane for eight groups of four inputs; bits 4 g to 4 g + 3 are the two positions within
  // group g.
  std::vector<std::uint32_t> words;
  // segments: the number of vectors of each segment of each panel, and the positions within the segment, one byte per
  // lane.
  std::vector<std::uint8_t> slots, bytes;
  std::vector<std::int64_t> byte_starts;  // of each panel

  std::int64_t panels() const { return (outputs + lanes - 1) / lanes; }
};

// The inputs of a segment, and of a word of two_of_four (eight groups of four).
inline constexpr std::int64_t kSegment = 32;

SparseWeights find_weights(const WeightMatrix& weights, SparseForm form, int lanes);
// Writes the weights' values in the order of the form.
void pack_values(const WeightMatrix& weights, const SparseWeights& where, float* to);

}  // namespace tessera::backends::cpu
