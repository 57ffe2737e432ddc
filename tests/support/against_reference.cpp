#include "support/against_reference.h"

#include "backends/backend_table.h"
#include "backends/cpu/machine/simd.h"
#include "ops/core/infer.h"
#include "ops/op_table.h"
#include "plan/choose_kernel.h"

namespace tessera::test {
namespace {

std::string describe(const OpCall& call) {
  std::string text = call.op + "(";
  for (const Value& input : call.inputs) {
    text += text.back() == '(' ? "" : ", ";
    if (input.has_value()) text += std::string(name_of(input.tensor().dtype())) + to_string(input.tensor().shape());
  }
  return text + ")";
}

// Calls body with the call as kernels see it.
template <typename Body>
auto with_view(const OpCall& call, Body body) {
  ir::Node node{call.op, "under_test", {}, std::vector<ir::ValueId>(call.outputs, ir::ValueId{0}), call.attributes, 0};
  ir::Graph graph;
  std::vector<ops::TensorType> inputs, outputs;
  std::vector<const Tensor*> constants, known;
  for (const Value& input : call.inputs) {
    const Tensor* tensor = input.has_value() ? &input.tensor() : nullptr;
    constants.push_back(tensor);
    inputs.push_back(tensor != nullptr ? ops::TensorType{tensor->dtype(), tensor->shape()} : ops::TensorType{});
    node.inputs.push_back(tensor != nullptr
                              ? graph.add_input("", ir::ValueType::tensor(tensor->dtype(), tensor->shape()))
                              : ir::ValueId{});
    if (tensor != nullptr) known.push_back(tensor);
  }
  const auto types =
      ops::infer_node(graph, node, [&](ir::ValueId id) { return known[static_cast<std::size_t>(id.index)]; });
  for (const ir::ValueType& type : types) outputs.push_back(concrete(type));
  return body(ops::NodeView(node, ops::op_of(node), inputs, outputs, constants));
}

// Device "cpu" with one kernel for an operator.
class OneKernel final : public backends::Device {
 public:
  OneKernel(std::string_view op, std::string_view kernel) : op_(op) {
    for (const backends::KernelEntry* entry : cpu_.kernels_for(op)) {
      if (entry->name == kernel) entry_ = *entry;
    }
    entry_.avoid = nullptr;
  }
  std::string_view name() const override { return "one kernel"; }
  std::span<const backends::KernelEntry* const> kernels_for(std::string_view op) const override {
    return op == op_ ? std::span(&pointer_, 1) : cpu_.kernels_for(op);
  }

 private:
  const backends::Device& cpu_ = backends::find_device("cpu");
  std::string op_;
  backends::KernelEntry entry_;
  const backends::KernelEntry* pointer_ = &entry_;
};

}  // namespace

std::string chosen_cpu_kernel(const OpCall& call) {
  return with_view(call, [](const ops::NodeView& view) {
    return std::string(plan::choose_kernel(backends::find_device("cpu"), view).entry->name);
  });
}

std::vector<std::string> accepting_cpu_kernels(const OpCall& call) {
  return with_view(call, [](const ops::NodeView& view) {
    std::vector<std::string> names;
    for (const backends::KernelEntry* entry : plan::accepting_kernels(backends::find_device("cpu"), view))
      names.emplace_back(entry->name);
    return names;
  });
}

std::vector<Value> run_op_by(const OpCall& call, std::string_view kernel, int threads) {
  return run_op_on(OneKernel(call.op, kernel), call, threads);
}

Tensor run_op_tensor_by(const OpCall& call, std::string_view kernel, int threads) {
  return run_op_by(call, kernel, threads)[0].tensor();
}

void expect_matches_reference(const OpCall& call, Tolerance tolerance) {
  SCOPED_TRACE(describe(call));
  EXPECT_FALSE(chosen_cpu_kernel(call).starts_with("reference")) << "no fast kernel accepts";
  const std::vector<Value> expected = run_op(call, "reference");
  for (const base::Isa isa : {base::Isa::scalar, base::Isa::avx2, base::Isa::avx512}) {
    const backends::cpu::ScopedIsa scope(isa);
    if (backends::cpu::active_isa() != isa) continue;
    SCOPED_TRACE("instruction set " + std::to_string(static_cast<int>(isa)));
    const std::vector<Value> actual = run_op(call, "cpu", 1);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (!expected[i].has_value()) continue;
      EXPECT_TRUE(close_to(actual[i].tensor(), expected[i].tensor(), tolerance)) << "output " << i;
    }
    for (const int threads : {2, 3}) {
      const std::vector<Value> again = run_op(call, "cpu", threads);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (!expected[i].has_value()) continue;
        EXPECT_TRUE(identical(again[i].tensor(), actual[i].tensor()))
            << "output " << i << ", " << threads << " threads";
      }
    }
  }
}

}  // namespace tessera::test
