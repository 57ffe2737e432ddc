#include "ops/recurrent/dynamic_quantize_lstm.h"

#include <cmath>

#include "ops/core/product.h"
#include "ops/core/signatures.h"
#include "ops/core/text_of.h"
#include "ops/element_wise/fused_activation.h"
#include "ops/recurrent/recurrent.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;
using ir::Dim;
using ir::Dims;
using ir::ValueId;
using Values = std::vector<ValueId>;
using Integers = std::vector<std::int64_t>;

// Positions of the inputs.
enum Input : std::size_t {
  kX,
  kW,
  kR,
  kB,
  kLengths,
  kInitialH,
  kInitialC,
  kPeepholes,
  kWScale,
  kWZero,
  kRScale,
  kRZero
};

// One number per direction, or one per row of its gates.
void check_scale(const InferContext& context, std::size_t i, const Dim& directions, const Dim& rows) {
  const Dims* dims = context.dims(i);
  const bool single = dims == nullptr || dims->size() == 1;
  check_recurrent_operand(context, i, single ? Dims{directions} : Dims{directions, rows});
}

void infer_dynamic_quantize_lstm(InferContext& context) {
  const RecurrentPlan plan = read_recurrent(context);
  const std::int64_t size = context.integer("hidden_size");
  context.check(size >= 1, "hidden_size is {}, expected at least 1", size);
  const Dim directions = static_cast<std::int64_t>(plan.directions), hidden = size, rows = hidden * Dim(4);
  const Dims x = context.dims(kX) != nullptr ? *context.dims(kX) : Dims(3);
  context.check(x.size() == 3, "'X' has shape {}, expected rank 3", text_of(x));
  const Dims state{directions, x[1], hidden};
  check_recurrent_operand(context, kW, {directions, x[2], rows});
  check_recurrent_operand(context, kR, {directions, hidden, rows});
  check_recurrent_operand(context, kB, {directions, rows * Dim(2)});
  check_recurrent_operand(context, kLengths, {x[1]});
  check_recurrent_operand(context, kInitialH, state);
  check_recurrent_operand(context, kInitialC, state);
  check_recurrent_operand(context, kPeepholes, {directions, hidden * Dim(3)});
  for (const std::size_t i : {kWScale, kWZero, kRScale, kRZero}) check_scale(context, i, directions, rows);
  context.set_output(0, DType::f32, {x[0], directions, x[1], hidden});
  context.set_output(1, DType::f32, state);
  context.set_output(2, DType::f32, state);
}

// --- decomposition: a Scan a direction ---

ValueId activate(GraphBuilder& builder, const GateActivation& activation, ValueId x) {
  const float alpha = activation.alpha, beta = activation.beta;
  const auto add = [&](std::string_view name, std::initializer_list<float> parameters) {
    return add_activation(builder, name, parameters, x);
  };
  switch (activation.kind) {
    case GateActivationKind::affine:
      return builder.add("Add", {builder.add("Mul", {x, builder.scalar(alpha)}), builder.scalar(beta)});
    case GateActivationKind::relu:
      return add("Relu", {});
    case GateActivationKind::leaky_relu:
      return add("LeakyRelu", {alpha});
    case GateActivationKind::thresholded_relu:
      return add("ThresholdedRelu", {alpha});
    case GateActivationKind::tanh:
      return add("Tanh", {});
    case GateActivationKind::sigmoid:
      return add("Sigmoid", {});
    case GateActivationKind::hard_sigmoid:
      return add("HardSigmoid", {alpha, beta});
    case GateActivationKind::scaled_tanh:
      return add("ScaledTanh", {alpha, beta});
    case GateActivationKind::elu:
      return add("Elu", {alpha});
    case GateActivationKind::softsign:
      return add("Softsign", {});
    case GateActivationKind::softplus:
      return add("Softplus", {});
  }
  return x;
}

class Layer {
 public:
  Layer(GraphBuilder& builder, const AttributeReader& reader, std::span<const ValueId> inputs)
      : builder_(builder),
        inputs_(inputs),
        plan_(read_recurrent(reader)),
        hidden_(reader.integer("hidden_size")),
        input_forget_(reader.integer("input_forget") != 0) {}

  Values run() {
    x_ = inputs_[kX];
    if (has(kLengths)) mask_steps();
    Values ys, hs, cs;
    for (std::size_t d = 0; d < plan_.directions; ++d) {
      const Values made = direction(d);
      hs.push_back(unsqueeze(made[0], 0));
      cs.push_back(unsqueeze(made[1], 0));
      ys.push_back(unsqueeze(made[2], 1));
    }
    return {concat(ys, 1), concat(hs, 0), concat(cs, 0)};
  }

 private:
  bool has(std::size_t i) const { return i < inputs_.size() && inputs_[i].valid(); }
  ValueId unsqueeze(ValueId value, std::int64_t axis) {
    return builder_.add("Unsqueeze", {value, builder_.integers({axis})});
  }
  ValueId concat(const Values& values, std::int64_t axis) {
    return values.size() == 1 ? values[0] : builder_.add("Concat", values, {{"axis", axis}});
  }
  static Values split(GraphBuilder& builder, ValueId value, std::int64_t parts) {
    return builder.add_multi("Split", {value}, static_cast<std::size_t>(parts),
                             {{"axis", std::int64_t{-1}}, {"num_outputs", parts}});
  }

  // The part of input i for direction d: a view of a constant.
  ValueId part(std::size_t i, std::size_t d) {
    const Tensor* whole = builder_.graph().constant(inputs_[i]);
    if (whole == nullptr || !whole->has_data())
      return builder_.add("Gather", {inputs_[i], builder_.scalar(static_cast<double>(d), DType::i64)});
    const Shape shape(whole->shape().begin() + 1, whole->shape().end());
    auto* first = static_cast<std::byte*>(const_cast<void*>(whole->raw())) +
                  static_cast<std::int64_t>(d) * byte_count(whole->dtype(), shape);
    return builder_.constant(Tensor(whole->dtype(), shape, first, whole->owner()));
  }

  // Computes masks bool[length, batch, 1] of the steps that a sequence has, and of those at which its state still
  // counts. Steps that no sequence has are left out of the range of X.
  void mask_steps() {
    const ValueId length = builder_.add("Gather", {builder_.add("Shape", {x_}), number(0)});
    const ValueId steps =
        builder_.add("Unsqueeze", {builder_.add("Range", {number(0), length, number(1)}), builder_.integers({1, 2})});
    lengths_ = builder_.cast(inputs_[kLengths], DType::i64);
    const ValueId ends = builder_.add("Unsqueeze", {lengths_, builder_.integers({0, 2})});
    masks_ = {builder_.add("Less", {steps, ends}), builder_.add("LessOrEqual", {steps, ends})};
    x_ = builder_.add("Where",
                      {builder_.add("Less", {steps, builder_.add("ReduceMax", {lengths_})}), x_, builder_.scalar(0)});
  }
  ValueId number(std::int64_t value) { return builder_.scalar(static_cast<double>(value), DType::i64); }

  // [batch, hidden], zeros unless given.
  ValueId initial(std::size_t i, std::size_t d) {
    if (has(i)) return part(i, d);
    const ValueId batch = builder_.add("Shape", {inputs_[kX]}, {{"start", std::int64_t{1}}, {"end", std::int64_t{2}}});
    const ValueId shape = builder_.add("Concat", {batch, builder_.integers({hidden_})}, {{"axis", std::int64_t{0}}});
    return builder_.add("Expand", {builder_.scalar(0), shape});
  }

  ValueId reversed(ValueId value) {
    return builder_.add("ReverseSequence", {value, lengths_},
                        {{"time_axis", std::int64_t{0}}, {"batch_axis", std::int64_t{1}}});
  }

  // The last h and c, [batch, hidden], and h of every step, [length, batch, hidden].
  Values direction(std::size_t d) {
    Values operands{x_, part(kW, d), part(kWScale, d), part(kWZero, d)};
    if (has(kB)) {
      const Values both = split(builder_, part(kB, d), 2);
      operands.push_back(builder_.add("Add", {both[0], both[1]}));
    }
    ValueId gates = builder_.add("com.microsoft::DynamicQuantizeMatMul", std::move(operands));
    const bool backwards = plan_.reverse(d), by_sequence = backwards && lengths_.valid();
    if (by_sequence) gates = reversed(gates);
    Values scanned{initial(kInitialH, d), initial(kInitialC, d), gates};
    scanned.insert(scanned.end(), masks_.begin(), masks_.end());
    const Integers in_directions(scanned.size() - 2, backwards && !by_sequence ? 1 : 0),
        out_directions(1, in_directions[0]);
    Values captures;
    const ir::SubgraphPointer body = step(d, scanned, captures);
    Values made = builder_.add_multi("Scan", std::move(scanned), 3,
                                     {{"body", body},
                                      {"num_scan_inputs", static_cast<std::int64_t>(in_directions.size())},
                                      {"scan_input_directions", in_directions},
                                      {"scan_output_directions", out_directions}},
                                     std::move(captures));
    if (by_sequence) made[2] = reversed(made[2]);
    return made;
  }

  // The subgraph of one time step: (h, c, gates of x, masks) -> (h, c, output h).
  ir::SubgraphPointer step(std::size_t d, const Values& scanned, Values& captures) {
    auto body = std::make_shared<ir::Graph>();
    GraphBuilder inner(*body);
    Values given;
    for (std::size_t i = 0; i < scanned.size(); ++i) {
      ir::ValueType type = builder_.type(scanned[i]);
      if (i >= 2 && type.dims) type.dims->erase(type.dims->begin());
      given.push_back(body->add_input(body->fresh_name("step"), type));
    }
    const auto inside = [&](ValueId outer) {
      if (const Tensor* constant = builder_.graph().constant(outer)) return inner.constant(*constant);
      captures.push_back(outer);
      return body->add_input(body->fresh_name("captured"), builder_.type(outer));
    };
    const ValueId weights = inside(part(kR, d)), scale = inside(part(kRScale, d)), zero = inside(part(kRZero, d));
    const ValueId peepholes = has(kPeepholes) ? inside(part(kPeepholes, d)) : ValueId{};
    body->set_outputs(cell(inner, d, given, {weights, scale, zero}, peepholes));
    return body;
  }

  Values cell(GraphBuilder& builder, std::size_t d, const Values& given, const Values& weights,
              ValueId peepholes) const {
    const ValueId h = given[0], c = given[1], zero = builder.scalar(0);
    const auto where = [&](std::size_t mask, ValueId value, ValueId otherwise) {
      return given.size() > mask ? builder.add("Where", {given[mask], value, otherwise}) : value;
    };
    const auto while_on = [&](ValueId value, ValueId otherwise) { return where(3, value, otherwise); };
    // The states of sequences that have ended are left out of the range, except in the step right after the end.
    const ValueId recurrent =
        builder.add("com.microsoft::DynamicQuantizeMatMul", {where(4, h, zero), weights[0], weights[1], weights[2]});
    const Values gates = split(builder, builder.add("Add", {given[2], recurrent}), 4);  // i, o, f, c
    const Values peeps = peepholes.valid() ? split(builder, peepholes, 3) : Values{};   // i, o, f
    const auto gate = [&](std::size_t which, ValueId state) {
      if (peeps.empty()) return gates[which];
      return builder.add("Add", {gates[which], builder.add("Mul", {peeps[which], state})});
    };
    const GateActivation* activations = plan_.activations.data() + d * 3;
    // The operands of activations are clipped, the cell is not.
    const auto active = [&](std::size_t which, ValueId x) {
      const bool clips = std::isfinite(plan_.clip);
      return activate(builder, activations[which],
                      clips ? builder.add("Clip", {x, builder.scalar(-plan_.clip), builder.scalar(plan_.clip)}) : x);
    };
    const ValueId i = active(0, gate(0, c));
    const ValueId f = input_forget_ ? builder.add("Sub", {builder.scalar(1), i}) : active(0, gate(2, c));
    const ValueId next_c =
        builder.add("Add", {builder.add("Mul", {f, c}), builder.add("Mul", {i, active(1, gates[3])})});
    const ValueId o = active(0, gate(1, next_c));
    const ValueId next_h = builder.add("Mul", {o, activate(builder, activations[2], next_c)});
    return {while_on(next_h, h), while_on(next_c, c), while_on(next_h, zero)};
  }

  GraphBuilder& builder_;
  std::span<const ValueId> inputs_;
  const RecurrentPlan plan_;
  const std::int64_t hidden_;
  const bool input_forget_;
  ValueId x_, lengths_;
  Values masks_;
};

std::optional<Values> decompose_dynamic_quantize_lstm(GraphBuilder& builder, const AttributeReader& reader,
                                                      std::span<const ValueId> inputs) {
  return Layer(builder, reader, inputs).run();
}

}  // namespace

// LSTM's equations with X (all steps together) and every state H (of the whole batch) as DynamicQuantizeLinear makes
// them: 8 bits unsigned. W is [directions, inputs, 4 · hidden], R [directions, hidden, 4 · hidden], gates in the order
// i, o, f, c.
const OpDef dynamic_quantize_lstm{
    .name = "com.microsoft::DynamicQuantizeLSTM",
    .since = 1,
    .product = several_products,
    .inputs = {{"X", types::f32},
               {"W", types::bytes, "T2"},
               {"R", types::bytes, "T2"},
               {"B", types::f32, "", optional},
               {"sequence_lens", {DType::i32}, "", optional},
               {"initial_h", types::f32, "", optional},
               {"initial_c", types::f32, "", optional},
               {"P", types::f32, "", optional},
               {"W_scale", types::f32},
               {"W_zero_point", types::bytes, "T2"},
               {"R_scale", types::f32},
               {"R_zero_point", types::bytes, "T2"}},
    .outputs = {{"Y", types::f32, "", optional}, {"Y_h", types::f32, "", optional}, {"Y_c", types::f32, "", optional}},
    .attributes = {{"activations", AttributeKind::texts},
                   {"activation_alpha", AttributeKind::reals},
                   {"activation_beta", AttributeKind::reals},
                   {"clip", AttributeKind::real},
                   {"direction", AttributeKind::text, ir::Attribute(std::string("forward"))},
                   {"hidden_size", AttributeKind::integer, std::nullopt, true},
                   {"input_forget", AttributeKind::integer, ir::Attribute(std::int64_t{0})}},
    .infer = infer_dynamic_quantize_lstm,
    .decompose = decompose_dynamic_quantize_lstm,
};

}  // namespace tessera::ops
