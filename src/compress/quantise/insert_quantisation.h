// Writes QuantizeLinear and DequantizeLinear pairs around layers, or stores their weights in fewer bits.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "compress/quantise/quantisable_layers.h"
#include "compress/quantise/range_estimator.h"
#include "compress/quantise/weight_form.h"
#include "compress/quantise/weight_rounding.h"

namespace tessera::compress {

// The statistics of the layers' data that a calibration has measured.
struct ActivationRanges {
  std::map<ir::ValueId, ValueRange> ranges;
  std::map<ir::ValueId, std::vector<double>> means;  // per channel, of the data of layers
};

// The activations that are quantised when these layers are: the data of the layers; the operands of an Add that adds
// two quantised tensors to a quantised one; and values that are only moved (Reshape, MaxPool …) before they become one
// of these.
class QuantisedActivations {
 public:
  QuantisedActivations(const ir::Graph& graph, const std::vector<QuantisableLayer>& layers,
                       const std::set<std::size_t>& selected);

  const std::set<ir::ValueId>& values() const { return values_; }
  // Whether a node computes on quantised data, so that all activations it reads are quantised.
  bool computes_quantised(ir::NodeId node) const { return nodes_.contains(node); }
  // The value whose scale this one must have, or the value itself.
  ir::ValueId scale_of(ir::ValueId value) const;

 private:
  bool made_by_layer(ir::ValueId value) const;
  void add_sum(ir::NodeId id);
  void add_movement(ir::NodeId id);

  const ir::Graph& graph_;
  std::set<ir::ValueId> values_;
  std::set<ir::NodeId> nodes_, layers_;
  std::map<ir::ValueId, ir::ValueId> shared_;
};

struct InsertOptions {
  bool correct_bias = true;
  bool correct_variance = false;  // of the weights of each channel, see with_variance_of
  RoundedWeights rounded = {};
};

// The least scales of a layer's weights with which its bias fits in 32 bits: the unit of the bias is the product of the
// scales of weights and data. Empty if there is no such limit. `unit` is the scale of the layer's data.
std::vector<double> least_weight_scales(const ir::Graph& graph, const QuantisableLayer& layer, double unit);

// The graph with the selected layers quantised: uint8 activations per tensor, int8 weights per channel, int32 biases.
// Tables become int8 per row. `layers` are those of `graph`; `known` must have a range for each activation.
ir::Graph quantise_layers(const ir::Graph& graph, const std::vector<QuantisableLayer>& layers,
                          const std::set<std::size_t>& selected, const ActivationRanges& known,
                          const InsertOptions& options);

// The graph with the weights of the selected layers in fewer bits, each layer in its form. Weights that several layers
// use are stored once if they become the same integers.
ir::Graph quantise_weights(const ir::Graph& graph, const std::vector<QuantisableLayer>& layers,
                           const std::set<std::size_t>& selected, const std::vector<WeightForm>& forms,
                           const RoundedWeights& rounded = {});

}  // namespace tessera::compress
