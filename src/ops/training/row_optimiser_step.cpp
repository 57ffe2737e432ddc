#include "ops/training/row_optimiser_step.h"

#include "ops/core/signatures.h"
#include "ops/training/optimiser_step.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;

namespace input = row_step_input;

// Whether both have the same dimensions from that axis on.
bool same_from(const ir::Dims& a, const ir::Dims& b, std::size_t axis) {
  bool same = a.size() == b.size();
  for (; same && axis < a.size(); ++axis) same = a[axis].may_equal(b[axis]);
  return same;
}

void infer_row_optimiser_step(InferContext& context) {
  for (std::size_t i = 0; i < input::parameter; ++i) {
    const ir::Dims* dims = context.dims(i);
    context.check(dims == nullptr || dims->empty(), "'{}' has shape {}, expected a scalar", context.op().inputs[i].name,
                  dims != nullptr ? to_string(*dims) : "");
  }
  const std::string& algorithm = context.text("algorithm");
  context.check(algorithm == "sgd" || algorithm == "adam" || algorithm == "adamw" || algorithm == "adagrad",
                "algorithm is '{}', expected sgd, adam, adamw or adagrad", algorithm);
  const std::size_t states = optimiser_states(context);
  context.check(context.input_count() == input::first_state + states, "{} states are given, expected {}",
                context.input_count() - input::first_state, states);
  const ir::ValueType& parameter = context.input(input::parameter);
  const ir::Dims *table = context.dims(input::parameter), *sums = context.dims(input::sums),
                 *places = context.dims(input::places);
  context.check(table == nullptr || !table->empty(), "the parameter is a scalar, expected rows");
  context.check(context.dtype(input::sums) == parameter.dtype && (!table || !sums || same_from(*table, *sums, 1)),
                "sums are {}, expected rows of {}", to_string(context.input(input::sums)), to_string(parameter));
  context.check(!sums || !places || (places->size() == 1 && (*places)[0].may_equal((*sums)[0])),
                "there are sums {} for places {}", sums ? to_string(*sums) : "", places ? to_string(*places) : "");
  for (std::size_t i = 0; i < states; ++i) {
    const ir::ValueType& state = context.input(input::first_state + i);
    context.check(state.dtype == parameter.dtype && (!table || !state.dims || same_from(*table, *state.dims, 0)),
                  "state {} is {}, expected {}", i, to_string(state), to_string(parameter));
  }
  for (std::size_t i = 0; i <= states; ++i) context.set_output(i, parameter);
}

double row_optimiser_step_operations(const NodeView& view) {
  const std::string& algorithm = view.text("algorithm");
  const bool rests = view.integer("lazy") != 0 || rows_rest(view);
  const double elements = static_cast<double>(view.input(rests ? input::sums : input::parameter).elements());
  return elements * (algorithm == "sgd" ? 5 : 14);
}

std::vector<AttributeSpec> row_step_attributes() {
  std::vector<AttributeSpec> specs = optimiser_attributes({"weight_decay", AttributeKind::real, ir::Attribute(0.0f)});
  specs.push_back({"lazy", AttributeKind::integer, ir::Attribute(std::int64_t{0})});
  return specs;
}

}  // namespace

bool rows_rest(const AttributeReader& reader) {
  const bool decays = reader.real("weight_decay") != 0, keeps_sums = reader.text("algorithm") == "adagrad";
  return !decays && (keeps_sums || optimiser_states(reader) == 0);
}

bool row_step_updates_in_place(const ir::Node&, std::size_t output, std::size_t input) {
  return input == (output == 0 ? input::parameter : input::first_state + output - 1);
}

const OpDef row_optimiser_step{
    .name = "tessera::RowOptimiserStep",
    .since = 1,
    .inputs = {{"rate", types::f32_and_f64},
               {"count", types::i64},
               {"gradient_scale", types::f32_and_f64},
               {"apply", types::boolean},
               {"parameter", types::f32_and_f64, "T"},
               {"sums", types::f32_and_f64, "T"},
               {"places", types::i64},
               {"states", types::f32_and_f64, "", variadic}},
    .outputs = {{"updated", types::f32_and_f64, "", variadic}},
    .attributes = row_step_attributes(),
    .infer = infer_row_optimiser_step,
    .operations = row_optimiser_step_operations,
};

}  // namespace tessera::ops
