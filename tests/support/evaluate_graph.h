// Every value of a graph, node by node on the reference device, and how far rounding may move its outputs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph.h"
#include "tessera/session.h"

namespace tessera::test {

// Nodes whose name starts with this compute exactly what they compute in any order of sums (small integers times powers
// of two, comparisons of inputs): noise leaves them alone, and what is discontinuous may only stand behind them.
inline constexpr std::string_view kExactPrefix = "exact/";

// Noise in the manner of Monte Carlo arithmetic (Parker, Pierce, Eggert: "Monte Carlo arithmetic: how to gamble with
// floating point and win", 2000): whatever a node of f32 reads and gives moves by up to `epsilons` f32 epsilons of its
// tensor's largest magnitude.
struct Noise {
  std::uint64_t seed = 0;
  double epsilons = 4;
};

// Values by ValueId::index; absent ones are empty. Throws what kernels throw.
std::vector<Value> evaluate_graph(const ir::Graph& graph, const NamedValues& inputs,
                                  const std::optional<Noise>& noise = std::nullopt);
// One node more: its inputs stand in `values`, its outputs are put there.
void evaluate_node_of(const ir::Graph& graph, ir::NodeId id, std::vector<Value>& values);

// A tensor of halves as f32; others as they are.
Tensor widened(const Tensor& tensor);

// The largest magnitude in a float tensor; infinity when an element is not finite. 0 for other tensors.
double largest_magnitude(const Tensor& tensor);

// How far apart the same function, computed in f32 in another order, may be (or in halves, some of whose roundings may
// be left out), one number an output: eight times the most that an element moved in three noisy evaluations, and 32
// epsilons of the largest magnitude, or 4 of halves.
std::vector<double> rounding_bounds(const ir::Graph& graph, const NamedValues& inputs, const std::vector<Value>& exact);

}  // namespace tessera::test
