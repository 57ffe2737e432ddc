#include "runtime/run/evaluate.h"

#include <gtest/gtest.h>

#include "backends/reference/reference_device.h"
#include "ir/text.h"
#include "support/expect_error.h"
#include "support/tolerance.h"
#include "tessera/session.h"

namespace tessera::runtime::evaluate_test {
namespace {

ir::Node node(const std::string& op, std::vector<bool> wanted) {
  ir::Node result{op, "under_test", {ir::ValueId{0}}, {}, {}, 0};
  for (std::size_t i = 0; i < wanted.size(); ++i)
    result.outputs.push_back(wanted[i] ? ir::ValueId{static_cast<std::int32_t>(1 + i)} : ir::ValueId{});
  return result;
}

std::vector<Value> evaluate(const ir::Node& node, const Value& input,
                            const backends::ExecutionResources& resources = {}) {
  return evaluate_node(backends::reference_device(), node, {&input, 1}, resources);
}

TEST(EvaluateNode, GivesTheOutputsThatAreWanted) {
  const Tensor x = Tensor::from<float>({2}, {0.0f, 255.0f});
  EXPECT_TRUE(evaluate(node("Max", {}), x).empty());
  const std::vector<Value> scale = evaluate(node("DynamicQuantizeLinear", {false, true}), x);
  ASSERT_EQ(scale.size(), 2u);
  EXPECT_FALSE(scale[0].has_value());
  EXPECT_TRUE(test::close_to(scale[1].tensor(), Tensor::scalar(1.0f)));
}

// An output that ONNX wants may be left out all the same, by a file or by a pass that finds it unused.
TEST(Session, RunsNodesWhoseFirstOutputIsNotWanted) {
  const Model model(
      std::make_shared<ir::Graph>(ir::parse("graph { input %x : f32[1, 1, 4] none, %at = MaxPool (%x) {kernel_shape = "
                                            "[2], strides = [2]} () = Max (%x, %x) output %at }")));
  for (const std::string device : {"cpu", "reference"}) {
    for (const std::vector<std::string>& without : {std::vector<std::string>{}, {"fold_constants"}}) {
      Session session(model, {.device = device, .without_passes = without});
      const NamedValues outputs = session.run({{"x", Tensor::from<float>({1, 1, 4}, {1, 2, 4, 3})}});
      EXPECT_TRUE(identical(outputs.at("at").tensor(), Tensor::from<std::int64_t>({1, 1, 2}, {1, 2})));
    }
  }
}

}  // namespace
}  // namespace tessera::runtime::evaluate_test
