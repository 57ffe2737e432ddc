// Finds the values of two models that mean the same.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tessera::report {

// A value of a model. Integers of a quantised model are compared as the real numbers that they represent.
struct PairedValue {
  std::string name;
  bool dequantised = false;  // for integers: by the scale and zero point of the node that makes them
};

// How integers of a quantised model represent real numbers: (value - zero) * scale.
struct Quantisation {
  ir::ValueId scale, zero;    // `zero` is invalid if it is 0
  ir::Attributes attributes;  // "axis", "block_size" of DequantizeLinear
};
// The quantisation of a tensor of integers that a quantising operator makes, possibly followed by operators that only
// move elements; nothing for other values.
std::optional<Quantisation> quantisation_of(const ir::Graph& graph, ir::ValueId value);

struct ValuePair {
  PairedValue a, b;
};

struct ValuePairs {
  std::vector<ValuePair> pairs;  // in the order in which A computes them
  bool quantised = false;        // whether values are quantised in one of the models but not in the other
};

// Pairs values of the same name, and beyond that:
// - If one model rounds a value (QuantizeLinear, DequantizeLinear) and the other does not, the rounded value is
//   compared, because the next layer reads it.
// - Suffixes that quantisers append to names are ignored: conv1_DequantizeLinear_Output and conv1_quantized are conv1.
// - If one model has an activation behind a value, and the other has fused it into the node before (or does it by the
//   bounds of rounding), the activation's result is compared with the other model's value of the name before it.
ValuePairs pair_values(const ir::Graph& a, const ir::Graph& b);

}  // namespace tessera::report
