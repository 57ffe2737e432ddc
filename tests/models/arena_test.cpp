// Planned memory of real nets against the bound that no plan can beat.
#include <gtest/gtest.h>

#include "models/models.h"
#include "tessera/session.h"

namespace tessera::arena_test {
namespace {

struct Case {
  const char* net;
  std::map<std::string, std::int64_t> dims;
};

class Arena : public testing::TestWithParam<Case> {};

TEST_P(Arena, IsWithinATenthOfTheLargestLiveSet) {
  models::BuildOptions options;
  options.dims = GetParam().dims;
  options.fill_weights = false;  // the null device never looks at them
  const Model model(std::make_shared<const ir::Graph>(models::build_model(GetParam().net, options)));
  NamedValues inputs;
  for (const ValueDescription& input : model.inputs())
    inputs[input.name] = Tensor(input.dtype, input.dims, nullptr, nullptr);
  Session session(model, {.device = "null"});
  const Session::PlanMemory memory = session.plan_memory(inputs);
  EXPECT_GT(memory.largest_live_bytes, 0);
  EXPECT_GE(memory.arena_bytes, memory.largest_live_bytes);
  EXPECT_LE(static_cast<double>(memory.arena_bytes), 1.1 * static_cast<double>(memory.largest_live_bytes));
}

INSTANTIATE_TEST_SUITE_P(Nets, Arena,
                         testing::Values(Case{"resnet50", {{"batch", 1}}}, Case{"resnet50", {{"batch", 8}}},
                                         Case{"mobilenet_v2", {{"batch", 1}}},
                                         Case{"bert_base", {{"batch", 1}, {"seq", 128}}},
                                         Case{"unet3d", {{"batch", 1}}}),
                         [](const auto& info) {
                           return std::string(info.param.net) + "_" + std::to_string(info.index);
                         });

}  // namespace
}  // namespace tessera::arena_test
