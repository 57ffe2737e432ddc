// The program that two parties run on shares: a list of steps over flat arrays of integers modulo 2^64. It is public;
// weights and random numbers are not part of it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ops/convolutions/window_geometry.h"

namespace tessera::protect {

using Word = std::uint64_t;
using Words = std::vector<Word>;

enum class SharedStepKind : std::uint32_t {
  convolve = 1,  // with bias; products with a matrix are convolutions of one pixel
  rectify,       // max(x, 0)
  pool_max,
  pool_average,
  add,  // of two values
};

// Values are registers: 0 is the input, and step i writes register i + 1. Layout: [batch, channels, y, x].
struct SharedStep {
  SharedStepKind kind = SharedStepKind::rectify;
  std::uint32_t input = 0, second = 0;                             // registers; `second` of add alone
  std::int64_t batch = 1, channels = 1, features = 1, groups = 1;  // features: output channels
  ops::WindowAxis y, x;
  bool counts_padding = false;  // of pool_average

  std::int64_t inputs() const { return batch * channels * y.input * x.input; }
  std::int64_t outputs() const { return batch * features * y.output * x.output; }
  std::int64_t weights() const {  // and features() biases
    return kind == SharedStepKind::convolve ? features * (channels / groups) * y.kernel * x.kernel : 0;
  }
};

struct SharedProgram {
  std::string input, output;  // names in the model
  Shape input_shape, output_shape;
  std::vector<SharedStep> steps;
  std::uint32_t result = 0;  // register
};

struct PlainWeights {
  std::vector<double> weights, biases;
};

struct SharedNet {
  SharedProgram program;
  std::vector<PlainWeights> weights;  // of each step; empty but for convolve
};

// The steps of a graph, whose types are inferred. Throws Error as share_model does.
SharedNet compile_for_shares(const ir::Graph& graph);

std::vector<std::byte> write_program(const SharedProgram& program);
// Throws Error: invalid_model for what is no program, over_budget for one that is too large.
SharedProgram read_program(std::span<const std::byte> bytes);

// y += x ⋆ w modulo 2^64.
void convolve(const SharedStep& step, std::span<const Word> x, std::span<const Word> w, std::span<Word> y);
// The input elements in the window of each output, without padding.
std::vector<std::vector<std::uint32_t>> windows_of(const SharedStep& step);
// The factor of an average's sum, in fixed point.
Word average_factor(const SharedStep& step, std::size_t elements_in_window);

}  // namespace tessera::protect
