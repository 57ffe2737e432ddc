// Recurrent layers: RNN, GRU and LSTM. Equations: ONNX operator documentation (opset 22).
#pragma once

#include <limits>
#include <vector>

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef rnn;
extern const OpDef gru;
extern const OpDef lstm;

enum class GateActivationKind : std::uint8_t {
  affine,  // alpha * x + beta
  relu,
  leaky_relu,        // x < 0 ? alpha * x : x
  thresholded_relu,  // x < alpha ? 0 : x
  tanh,
  sigmoid,
  hard_sigmoid,  // clamp(alpha * x + beta, 0, 1)
  scaled_tanh,   // alpha * tanh(beta * x)
  elu,           // x < 0 ? alpha * (e^x - 1) : x
  softsign,      // x / (1 + |x|)
  softplus,      // log(1 + e^x)
};

struct GateActivation {
  GateActivationKind kind = GateActivationKind::tanh;
  float alpha = 0;
  float beta = 0;
  friend bool operator==(const GateActivation&, const GateActivation&) = default;
};

// The attributes of a node, checked, with defaults filled in.
struct RecurrentPlan {
  std::size_t directions = 1;
  bool first_is_reverse = false;                        // for one direction; of two directions the second is
  bool batch_first = false;                             // layout 1
  float clip = std::numeric_limits<float>::infinity();  // bounds the inputs of activations
  // Direction d has the entries [d * n, (d + 1) * n) with n = 1 (RNN: f), 2 (GRU: f, g) or 3 (LSTM: f, g, h).
  std::vector<GateActivation> activations;

  bool reverse(std::size_t direction) const { return directions == 2 ? direction == 1 : first_is_reverse; }
};

// Reads any operator with the attributes of RNN, with or without layout; `default_activations` are those of one
// direction. Throws Error(invalid_model).
RecurrentPlan read_recurrent(const AttributeReader& reader, std::span<const GateActivationKind> default_activations);
// Reads any RNN, GRU or LSTM; the operator's name decides the defaults.
RecurrentPlan read_recurrent(const AttributeReader& reader);

// Shared by operators on the same operands: signatures, inference of Y, Y_h and Y_c, and the cost of the forward
// direction.
std::vector<Parameter> gru_inputs();  // for RNN as well
std::vector<Parameter> lstm_inputs();
std::vector<AttributeSpec> rnn_attributes();
std::vector<AttributeSpec> gru_attributes();
std::vector<AttributeSpec> lstm_attributes();
// Dimensions of Y, of Y_h and Y_c, and of the values kept for each step: [directions, length, batch, hidden] times the
// number of values.
struct RecurrentShapes {
  ir::Dims y, state, step;
};
// Throws Error(invalid_model) where the operands do not fit together.
RecurrentShapes check_recurrent_operands(const InferContext& context);
void infer_recurrent(InferContext& context);
double recurrent_operations(const NodeView& view);

// Throws Error(invalid_model) unless the input, if present, can have this shape.
void check_recurrent_operand(const InferContext& context, std::size_t input, const ir::Dims& expected);

// The number of blocks of rows in W and R: 1, 3 or 4.
std::int64_t gates_of(const OpDef& op);

}  // namespace tessera::ops
