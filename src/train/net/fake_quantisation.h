// Quantisation-aware training (CompressOptions of tessera/train.h): the step computes with weights and activations as
// the quantised net will have them. A rounded value is DequantizeLinear of QuantizeLinear, whose gradients pass
// straight through (ops/quantised/quantisation.cpp), so that the float weights learn to round well.
//
// The nodes between variables and layers, for a layer with weights W, whose names the variables carry:
//   weights      clipped to ±q steps, q being 127 or 7, and rounded; a step for each output channel, around zero
//   activations  the data operand, 8 bits, unsigned with a zero point; one step for the tensor. Layers that read the
//                same data share its range, which has the name of the first one's weights.
// A step is what was observed, largest magnitude / q or (high − low) / 255, where low and high are exponential averages
// over the runs. With learned ranges what has been observed stays from start_step on, and the step is the product
// with a factor that is trained. Its gradient is that of the step size in Esser et al., arXiv:1902.08153, but for the
// scale: relative to what was observed, one learning rate fits layers of any magnitude.
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

// From the table [compress] of a configuration. Throws Error(invalid_argument).
CompressOptions read_compress(io::TomlTable table);

// A layer that is quantised, of a model whose weights are constants.
struct FakeQuantisedLayer {
  ir::NodeId node;        // Conv, Gemm or MatMul
  ir::NodeId norm;        // the BatchNormalization at inference that alone reads its result, or invalid
  std::string weight;     // the name of its weights
  std::string input;      // the name that the range of its data goes by
  std::int64_t axis = 0;  // of the weights' output channels
  std::int64_t rank = 0;  // of the weights
};

// In order of the nodes: those that layer_weights() has, without transposed convolutions and what is excluded. Throws
// Error(invalid_argument) for options out of range, a pattern that matches no layer, and where no layer is left.
std::vector<FakeQuantisedLayer> quantised_layers(const ir::Graph& model, const CompressOptions& options);

// Names of the variables.
std::string weight_factor_of(const std::string& weight);  // f32 [channels], a parameter; learned ranges alone
std::string weight_step_of(const std::string& weight);    // f32 [channels], observed; learned ranges alone
std::string input_factor_of(const std::string& input);    // f32 [1], a parameter; learned ranges alone
std::string input_low_of(const std::string& input);       // f32 [], observed
std::string input_high_of(const std::string& input);
std::string observed_runs();  // i64 [], runs that have observed
// Whether a parameter is one of these factors, which no weight decay may pull to zero.
bool is_range_factor(const std::string& parameter);

// The bounds of what a weight can be in steps: ±127 or ±7.
double largest_code(const CompressOptions& options);
// Factors below this one count as it, and steps below this one, too.
inline constexpr float kLeastFactor = 0.015625f, kLeastStep = 1e-12f;

struct FakeQuantisation {
  std::vector<RunningStatistic> state;  // variables whose updates are left to the caller
  std::vector<ir::ValueId> constants;   // what was observed: gradients stop here
};

// Quantises the layers of a graph whose weights are constants and whose types are inferred. Factors become constants,
// which the caller makes parameters like weights. `runs_per_step`: see TrainingGraphOptions::accumulate.
// `fixed_norm`: BatchNormalization is left alone. Trains, or evaluates with the state as it is.
FakeQuantisation fake_quantise(ir::Graph& graph, const CompressOptions& options, std::int64_t runs_per_step,
                               bool fixed_norm, bool trains);

// The trained net as integers: weights are int8 or int4 and activations uint8, between QuantizeLinear and
// DequantizeLinear; biases are int32 where activations are quantised. BatchNormalization behind a layer becomes part of
// its weights and bias. `values` are the variables by name. Throws Error(invalid_argument) where no run has observed
// activations yet.
Model quantised_model(const Model& model, const CompressOptions& options, const std::map<std::string, Tensor>& values,
                      bool fixed_norm);

}  // namespace tessera::train
