// Which values of two models mean the same.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tessera::report {

// A value of a model; integers of a quantised one as the real numbers that they stand for.
struct PairedValue {
  std::string name;
  bool dequantised = false;  // of integers: with the scale and zero point of the node that makes them
};

// What integers of a quantised model stand for: (value - zero) * scale.
struct Quantisation {
  ir::ValueId scale, zero;    // zero: invalid where it is 0
  ir::Attributes attributes;  // "axis", "block_size" of DequantizeLinear
};
// Of a tensor of integers that a quantising operator makes, maybe before operators that only move elements; nothing for
// other values.
std::optional<Quantisation> quantisation_of(const ir::Graph& graph, ir::ValueId value);

struct ValuePair {
  PairedValue a, b;
};

struct ValuePairs {
  std::vector<ValuePair> pairs;  // in the order in which A computes them
  bool quantised = false;        // in one of the models values are quantised that are not in the other
};

// Values of the same name, and beyond that:
// - Where one model rounds a value (QuantizeLinear, DequantizeLinear) and the other does not, the rounded value is
// compared: it is what the next layer reads.
// - Suffixes of quantisers are left out of names: conv1_DequantizeLinear_Output and conv1_quantized are conv1.
// - Where one model has an activation behind a value and the other has made it part of the node before (fused, or done
// by the bounds of rounding), the value after
//   the activation is compared with what the other model calls by the name before it.
ValuePairs pair_values(const ir::Graph& a, const ir::Graph& b);

}  // namespace tessera::report
