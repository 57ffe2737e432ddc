// A graph as steps on shares. A table at the end says which function translates an operator.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "ops/op_table.h"
#include "protect/secret_shared/shared_program.h"

namespace tessera::protect {
namespace {

// The steps of the nodes so far.
class Compiler {
 public:
  explicit Compiler(const ir::Graph& graph) : graph_(graph) {}

  const ir::Graph& graph() const { return graph_; }
  Shape shape_of(ir::ValueId value) const {
    const std::optional<Shape> shape = graph_.value(value).type.shape();
    require(shape.has_value(), ErrorKind::invalid_argument,
            "the shape of '{}' is not fixed; fix the dimensions of the inputs, by --dim batch=1 for example",
            graph_.value(value).name);
    return *shape;
  }
  std::uint32_t register_of(ir::ValueId value) const {
    const auto found = registers_.find(value);
    require(found != registers_.end(), ErrorKind::unsupported, "'{}' is no value that is shared",
            graph_.value(value).name);
    return found->second;
  }
  bool is_shared(ir::ValueId value) const { return registers_.contains(value); }
  void name(ir::ValueId value, std::uint32_t number) { registers_[value] = number; }
  void add(const ir::Node& node, SharedStep step, PlainWeights weights = {}) {
    net.program.steps.push_back(step);
    net.weights.push_back(std::move(weights));
    name(node.outputs[0], static_cast<std::uint32_t>(net.program.steps.size()));
  }
  // The elements of a float32 constant.
  std::vector<double> constant(ir::ValueId value) const {
    const Tensor* const tensor = value.valid() ? graph_.constant(value) : nullptr;
    require(tensor != nullptr && tensor->dtype() == DType::f32, ErrorKind::unsupported,
            "weights that are no float32 constants");
    const Tensor contents = tensor->contents();
    return {contents.values<float>().begin(), contents.values<float>().end()};
  }

  SharedNet net;

 private:
  const ir::Graph& graph_;
  std::map<ir::ValueId, std::uint32_t> registers_;
};

ops::WindowAxis point(std::int64_t size) {
  return {.input = size, .output = size};
}

SharedStep element_wise(const Compiler& compiler, const ir::Node& node, SharedStepKind kind) {
  const std::int64_t elements = element_count(compiler.shape_of(node.outputs[0]));
  return {.kind = kind, .input = compiler.register_of(node.inputs[0]), .batch = 1, .y = point(1), .x = point(elements)};
}

// Sets the axes of a window of rank 1 or 2.
void set_window(SharedStep& step, const std::vector<ops::WindowAxis>& axes) {
  require(axes.size() == 1 || axes.size() == 2, ErrorKind::unsupported, "windows of rank {}, expected 1 or 2",
          axes.size());
  step.y = axes.size() == 2 ? axes[0] : point(1);
  step.x = axes.back();
}

void convolution(Compiler& compiler, const ir::Node& node, const ops::OpDef& op) {
  const ops::AttributeReader reader(node, op);
  const Shape data = compiler.shape_of(node.inputs[0]), weights = compiler.shape_of(node.inputs[1]);
  SharedStep step{.kind = SharedStepKind::convolve,
                  .input = compiler.register_of(node.inputs[0]),
                  .batch = data[0],
                  .channels = data[1],
                  .features = weights[0],
                  .groups = reader.integer("group")};
  set_window(step, ops::convolution_geometry(reader, data, weights));
  PlainWeights values{compiler.constant(node.inputs[1]), std::vector<double>(static_cast<std::size_t>(step.features))};
  if (node.inputs.size() > 2 && node.inputs[2].valid()) values.biases = compiler.constant(node.inputs[2]);
  compiler.add(node, step, std::move(values));
}

// [rows, inputs] times a matrix.
void product(Compiler& compiler, const ir::Node& node, const Shape& matrix, bool is_transposed, double scale,
             std::vector<double> biases) {
  const std::int64_t inputs = matrix[is_transposed ? 1 : 0], features = matrix[is_transposed ? 0 : 1];
  const std::int64_t rows = element_count(compiler.shape_of(node.inputs[0])) / inputs;
  SharedStep step{.kind = SharedStepKind::convolve,
                  .input = compiler.register_of(node.inputs[0]),
                  .batch = rows,
                  .channels = inputs,
                  .features = features,
                  .y = point(1),
                  .x = point(1)};
  const std::vector<double> stored = compiler.constant(node.inputs[1]);
  PlainWeights values{std::vector<double>(stored.size()), std::move(biases)};
  for (std::int64_t feature = 0; feature < features; ++feature) {
    for (std::int64_t input = 0; input < inputs; ++input)
      values.weights[static_cast<std::size_t>(feature * inputs + input)] =
          scale *
          stored[static_cast<std::size_t>(is_transposed ? feature * inputs + input : input * features + feature)];
  }
  compiler.add(node, step, std::move(values));
}

void general_product(Compiler& compiler, const ir::Node& node, const ops::OpDef& op) {
  const ops::AttributeReader reader(node, op);
  require(reader.integer("transA") == 0, ErrorKind::unsupported, "a transposed first operand");
  const bool is_transposed = reader.integer("transB") != 0;
  const Shape matrix = compiler.shape_of(node.inputs[1]);
  const auto features = static_cast<std::size_t>(matrix[is_transposed ? 0 : 1]);
  std::vector<double> biases(features);
  if (node.inputs.size() > 2 && node.inputs[2].valid()) {
    const std::vector<double> stored = compiler.constant(node.inputs[2]);
    require(stored.size() == features || stored.size() == 1, ErrorKind::unsupported,
            "an addend of {} elements, expected {}", stored.size(), features);
    for (std::size_t i = 0; i < features; ++i)
      biases[i] = static_cast<double>(reader.real("beta")) * stored[stored.size() == 1 ? 0 : i];
  }
  product(compiler, node, matrix, is_transposed, static_cast<double>(reader.real("alpha")), std::move(biases));
}

void matrix_product(Compiler& compiler, const ir::Node& node, const ops::OpDef&) {
  const Shape matrix = compiler.shape_of(node.inputs[1]);
  require(matrix.size() == 2, ErrorKind::unsupported, "a second operand of rank {}, expected 2", matrix.size());
  product(compiler, node, matrix, false, 1, std::vector<double>(static_cast<std::size_t>(matrix[1])));
}

void rectifier(Compiler& compiler, const ir::Node& node, const ops::OpDef&) {
  compiler.add(node, element_wise(compiler, node, SharedStepKind::rectify));
}

void pooling(Compiler& compiler, const ir::Node& node, const ops::OpDef& op, SharedStepKind kind) {
  require(node.outputs.size() < 2 || !node.outputs[1].valid(), ErrorKind::unsupported, "the indices of a maximum");
  const ops::AttributeReader reader(node, op);
  const Shape data = compiler.shape_of(node.inputs[0]);
  SharedStep step{.kind = kind,
                  .input = compiler.register_of(node.inputs[0]),
                  .batch = data[0],
                  .channels = data[1],
                  .features = data[1]};
  set_window(step, ops::pooling_geometry(reader, data));
  step.counts_padding = kind == SharedStepKind::pool_average && reader.integer("count_include_pad") != 0;
  require(!step.counts_padding || reader.integer("ceil_mode") == 0, ErrorKind::unsupported,
          "an average that counts padding and rounds its size up");
  compiler.add(node, step);
}

void maximum(Compiler& compiler, const ir::Node& node, const ops::OpDef& op) {
  pooling(compiler, node, op, SharedStepKind::pool_max);
}

void average(Compiler& compiler, const ir::Node& node, const ops::OpDef& op) {
  pooling(compiler, node, op, SharedStepKind::pool_average);
}

void global_average(Compiler& compiler, const ir::Node& node, const ops::OpDef&) {
  const Shape data = compiler.shape_of(node.inputs[0]);
  const std::int64_t pixels = element_count(data) / (data[0] * data[1]);
  compiler.add(node, {.kind = SharedStepKind::pool_average,
                      .input = compiler.register_of(node.inputs[0]),
                      .batch = data[0],
                      .channels = data[1],
                      .features = data[1],
                      .y = point(1),
                      .x = {.input = pixels, .output = 1, .kernel = pixels}});
}

void sum(Compiler& compiler, const ir::Node& node, const ops::OpDef&) {
  // A constant addend behind a product is its bias.
  const std::size_t constant = compiler.is_shared(node.inputs[0]) ? 1 : 0;
  const ir::ValueId data = node.inputs[1 - constant], addend = node.inputs[constant];
  if (compiler.is_shared(addend)) {
    require(compiler.shape_of(data) == compiler.shape_of(addend), ErrorKind::unsupported, "addends of unequal shapes");
    SharedStep step = element_wise(compiler, node, SharedStepKind::add);
    step.second = compiler.register_of(node.inputs[1]);
    return compiler.add(node, step);
  }
  const std::uint32_t number = compiler.register_of(data);
  const std::vector<double> stored = compiler.constant(addend);
  const auto uses = compiler.graph().compute_uses();
  require(number > 0 && uses[static_cast<std::size_t>(data.index)].size() == 1 &&
              compiler.net.program.steps[number - 1].kind == SharedStepKind::convolve &&
              compiler.net.program.steps[number - 1].x.output == 1 &&
              static_cast<std::int64_t>(stored.size()) == compiler.net.program.steps[number - 1].features &&
              compiler.shape_of(addend).back() == static_cast<std::int64_t>(stored.size()),
          ErrorKind::unsupported, "a constant addend that is no bias of a product with a matrix");
  for (std::size_t i = 0; i < stored.size(); ++i) compiler.net.weights[number - 1].biases[i] += stored[i];
  compiler.name(node.outputs[0], number);
}

// For operators that move nothing in memory.
void same_elements(Compiler& compiler, const ir::Node& node, const ops::OpDef&) {
  compiler.name(node.outputs[0], compiler.register_of(node.inputs[0]));
}

struct SharedForm {
  std::string_view op;
  void (*compile)(Compiler& compiler, const ir::Node& node, const ops::OpDef& op);
};

constexpr SharedForm kForms[] = {
    {"Conv", convolution},       {"Gemm", general_product},
    {"MatMul", matrix_product},  {"Add", sum},
    {"Relu", rectifier},         {"MaxPool", maximum},
    {"AveragePool", average},    {"GlobalAveragePool", global_average},
    {"Flatten", same_elements},  {"Reshape", same_elements},
    {"Identity", same_elements},
};

}  // namespace

SharedNet compile_for_shares(const ir::Graph& graph) {
  require(graph.inputs().size() == 1 && graph.outputs().size() == 1 && graph.variables().empty(),
          ErrorKind::unsupported,
          "the model has {} inputs, {} outputs and {} variables; shares are computed of one input and one output",
          graph.inputs().size(), graph.outputs().size(), graph.variables().size());
  const ir::ValueId input = graph.inputs()[0], output = graph.outputs()[0];
  require(graph.value(input).type.dtype == DType::f32, ErrorKind::unsupported, "input '{}' is {}, expected float32",
          graph.value(input).name, name_of(graph.value(input).type.dtype));
  Compiler compiler(graph);
  compiler.name(input, 0);
  std::string refused;
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    const auto form = std::ranges::find(kForms, std::string_view(node.op), &SharedForm::op);
    if (form == std::end(kForms)) {
      refused += (refused.empty() ? "" : ", ") + ir::describe(graph, id);
      continue;
    }
    if (!refused.empty()) continue;
    try {
      form->compile(compiler, node, *ops::find_op(node.op));
    } catch (Error& error) {
      error.add_context(ir::describe(graph, id));
      throw;
    }
  }
  std::string known;
  for (const SharedForm& form : kForms) known += (known.empty() ? "" : ", ") + std::string(form.op);
  require(refused.empty(), ErrorKind::unsupported, "these nodes cannot be computed on shares: {}; expected {}", refused,
          known);
  SharedProgram& program = compiler.net.program;
  program.input = graph.value(input).name;
  program.output = graph.value(output).name;
  program.input_shape = compiler.shape_of(input);
  program.output_shape = compiler.shape_of(output);
  program.result = compiler.register_of(output);
  return std::move(compiler.net);
}

}  // namespace tessera::protect
