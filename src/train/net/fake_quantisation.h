// Quantisation-aware training (CompressOptions of tessera/train.h): the step computes with weights and activations as
// the quantised net will have them. A value is rounded by QuantizeLinear and DequantizeLinear, whose gradients pass
// straight through (ops/quantised/quantisation.cpp), so that the float weights learn to round well.
//
// For a layer with weights W, these nodes are inserted between variables and layer, with variables named after W:
//   weights      clipped to ±q steps, where q is 127 or 7, and rounded; one step per output channel, around zero
//   activations  the data operand, unsigned 8-bit with a zero point; one step per tensor. Layers that read the same
//                data share its range, which is named after the weights of the first of them.
// A step is observed: largest magnitude / q, or (high − low) / 255, where low and high are exponential averages over
// the runs. With learned ranges, the observed values are frozen at start_step, and the step is their product with a
// factor that is trained. Its gradient is that of the step size in Esser et al., arXiv:1902.08153, except for the
// scale: because the factor is relative to the observed step, one learning rate fits layers of any magnitude.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "tessera/train.h"
#include "train/net/batch_norm.h"

namespace tessera::io {
class TomlTable;
}  // namespace tessera::io

namespace tessera::train {

// Reads the table [compress] of a configuration. Throws Error(invalid_argument).
CompressOptions read_compress(io::TomlTable table);

// A layer that is quantised, in a model whose weights are constants.
struct FakeQuantisedLayer {
  ir::NodeId node;        // Conv, Gemm or MatMul
  ir::NodeId norm;        // the BatchNormalization in inference form that is the only reader of its result, or invalid
  std::string weight;     // the name of its weights
  std::string input;      // the name of its data's range
  std::int64_t axis = 0;  // of the weights' output channels
  std::int64_t rank = 0;  // of the weights
};

// The layers in order of the nodes: those of layer_weights(), except transposed convolutions and excluded layers.
// Throws Error(invalid_argument) for options out of range, for a pattern that matches no layer, and if no layer is
// left.
std::vector<FakeQuantisedLayer> quantised_layers(const ir::Graph& model, const CompressOptions& options);

// Names of the variables that belong to a weight or to the data of a layer.
std::string weight_factor_of(const std::string& weight);  // f32 [channels], a parameter; only with learned ranges
std::string weight_step_of(const std::string& weight);    // f32 [channels], observed; only with learned ranges
std::string input_factor_of(const std::string& input);    // f32 [1], a parameter; only with learned ranges
std::string input_low_of(const std::string& input);       // f32 [], observed
std::string input_high_of(const std::string& input);
std::string observed_runs();  // i64 [], number of runs that have observed
// Whether a parameter is such a factor, to which weight decay must not apply.
bool is_range_factor(const std::string& parameter);

// The largest magnitude of a quantised weight, in steps: 127 or 7.
double largest_code(const CompressOptions& options);
// Lower bounds of factors and steps: smaller ones are replaced by these.
inline constexpr float kLeastFactor = 0.015625f, kLeastStep = 1e-12f;

struct FakeQuantisation {
  std::vector<RunningStatistic> state;  // variables whose updates are left to the caller
  std::vector<ir::ValueId> constants;   // observed values, at which gradients stop
};

// Quantises the layers of a graph whose weights are constants and whose types are inferred. Factors become constants,
// which the caller turns into parameters like weights. `runs_per_step` is TrainingGraphOptions::accumulate. With
// `fixed_norm`, BatchNormalization is not changed. Without `trains`, the state is only read, for evaluation.
FakeQuantisation fake_quantise(ir::Graph& graph, const CompressOptions& options, std::int64_t runs_per_step,
                               bool fixed_norm, bool trains);

// The trained net with integers: weights are int8 or int4 and activations uint8, between QuantizeLinear and
// DequantizeLinear; biases are int32 if activations are quantised. A BatchNormalization behind a layer becomes part of
// its weights and bias. `values` are the variables by name. Throws Error(invalid_argument) if no run has observed
// activations yet.
Model quantised_model(const Model& model, const CompressOptions& options, const std::map<std::string, Tensor>& values,
                      bool fixed_norm);

}  // namespace tessera::train
