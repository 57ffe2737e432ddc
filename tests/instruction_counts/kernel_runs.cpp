// Runs kernels of device "cpu" on fixed shapes with one thread, once to warm up and once within run_counted(), which is
// what check_counts.py has Callgrind count. Prints the compiler, the instruction set, and a line "case kernel" for each
// counted run.
#include <fmt/format.h>

#include <cstdlib>

#include "backends/cpu/cpu_device.h"
#include "base/cpu_info.h"
#include "ops/convolutions/channels_last.h"
#include "ops/convolutions/conv_chain.h"
#include "ops/core/builder.h"
#include "ops/op_table.h"
#include "plan/choose_kernel.h"
#include "plan/kernel_trial.h"
#include "runtime/memory/weight_store.h"
#include "support/random_tensor.h"

// Found by this name; not inlined, and not so short that calls of it are turned into jumps.
extern "C" [[gnu::noinline, gnu::used]] void run_counted(tessera::plan::KernelTrial& trial) {
  trial.run();
  asm volatile("" ::: "memory");
}

namespace {

using namespace tessera;
using Integers = std::vector<std::int64_t>;

struct Case {
  const char* name;
  const char* op;
  std::vector<Tensor> inputs;  // all but the first are constants of the node; one without a value is absent
  ir::Attributes attributes = {};
};

std::uint64_t next_seed = 1;

Tensor random(const Shape& shape) {
  return test::random_tensor(DType::f32, shape, next_seed++);
}
Tensor random_bytes(DType type, const Shape& shape) {
  return type == DType::u8 ? test::random_tensor(type, shape, next_seed++, 0, 255)
                           : test::random_tensor(type, shape, next_seed++, -127, 127);
}

// Some millions of instructions each, so that starting a kernel does not show; odd sizes, so that edges do.
std::vector<Case> cases() {
  const ir::Attributes relu{{"activation", std::string("Relu")}};
  const ir::Attributes same{{"pads", Integers{1, 1, 1, 1}}, {"activation", std::string("Relu")}};
  ir::Attributes depthwise = same, halved = same;
  depthwise["group"] = std::int64_t{96};
  halved["strides"] = Integers{2, 2};
  // An inverted residual block.
  const std::vector<ops::ConvStage> block{
      {.operands = {0, 1, -1, -1}, .activation = "Relu"},
      {.operands = {4, 2, -1, -1}, .pads = {1, 1, 1, 1}, .group = 72, .activation = "Relu"},
      {.operands = {5, 3, -1, 0}}};
  return {
      {"product", "tessera::Linear", {random({130, 192}), random({192, 260}), random({260})}, relu},
      {"convolution",
       "tessera::ChannelsLastConv",
       {random({1, 41, 41, 48}), random({72, 48, 3, 3}), random({72})},
       halved},
      {"winograd", "tessera::ChannelsLastConv", {random({1, 30, 30, 64}), random({72, 64, 3, 3}), random({72})}, same},
      {"depthwise",
       "tessera::ChannelsLastConv",
       {random({1, 57, 57, 96}), random({96, 1, 3, 3}), random({96})},
       depthwise},
      {"convolution_chain",
       "tessera::ConvChain",
       {random({1, 43, 43, 12}), random({72, 12, 1, 1}), random({72, 1, 3, 3}), random({12, 72, 1, 1})},
       ops::conv_chain_attributes(block)},
      {"quantised_convolution",
       "tessera::QuantisedConv",
       {random_bytes(DType::u8, {1, 29, 29, 64}), random_bytes(DType::i8, {72, 64, 3, 3}), random({72}),
        Tensor::scalar(0.02f), Tensor::scalar<std::uint8_t>(119), Tensor::scalar(0.01f), Tensor::scalar(2.0f),
        Tensor::scalar<std::uint8_t>(131)},
       same},
      {"softmax", "Softmax", {random({600, 1001})}},
      {"layer_normalisation", "LayerNormalization", {random({600, 769}), random({769}), random({769})}},
      {"gelu", "Gelu", {random({300, 1003})}},
  };
}

void run(const Case& each) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  std::vector<ir::ValueId> operands{
      graph.add_input("x", ir::ValueType::tensor(each.inputs[0].dtype(), each.inputs[0].shape()))};
  for (std::size_t i = 1; i < each.inputs.size(); ++i) operands.push_back(builder.constant(each.inputs[i]));
  const ir::ValueId output = builder.add(each.op, operands, each.attributes);
  const ir::Node& node = graph.node(graph.order().front());
  std::vector<ops::TensorType> inputs;
  std::vector<const Tensor*> constants;
  for (const Tensor& input : each.inputs) {
    inputs.push_back({input.dtype(), input.shape()});
    constants.push_back(constants.empty() ? nullptr : &input);
  }
  const std::vector<ops::TensorType> outputs{{builder.dtype(output), *builder.type(output).shape()}};
  const ops::NodeView view(node, ops::op_of(node), inputs, outputs, constants);
  const backends::KernelEntry& entry = *plan::choose_kernel(backends::cpu_device(), view).entry;
  runtime::PackAtOnce store;
  const backends::ExecutionResources resources;
  plan::KernelTrial trial(backends::cpu_device(), entry, view,
                          std::vector<Value>(each.inputs.begin(), each.inputs.end()), store, resources);
  trial.run();
  run_counted(trial);
  fmt::print("{} {}\n", each.name, entry.name);
}

}  // namespace

int main() {
  fmt::print("{}\n{}\n", COMPILER, base::isa_name(base::cpu_info()));
  for (const Case& each : cases()) run(each);
  return 0;
}
