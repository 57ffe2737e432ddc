// Plans for a device that is no host: where steps and values are, what is copied, and what waits for what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/plan.h"
#include "support/pass_context.h"
#include "support/queued_device.h"

namespace tessera::plan::device_plan_test {
namespace {

using backends::MemorySpace;
using test::QueuedDevice;
using testing::ElementsAre;

class NoWeights final : public backends::WeightStore {
 public:
  std::shared_ptr<const backends::PackedWeights> find_or_pack(const Tensor&, std::string_view, std::int64_t,
                                                              const backends::PackFunction&) override {
    return nullptr;
  }
};

std::shared_ptr<const Plan> planned(const std::string& text, const QueuedDevice& device) {
  NoWeights weights;
  return make_plan(test::parsed(text), device, weights, {.device_weights = &weights});
}

// "device Relu", "copy to host" and so on.
std::vector<std::string> steps_of(const Plan& plan) {
  std::vector<std::string> steps;
  for (const Step& step : plan.steps) {
    const std::string where = step.space == MemorySpace::device ? "device" : "host";
    steps.push_back(step.kind == StepKind::copy ? "copy to " + where : where + " " + plan.graph.node(step.node).op);
  }
  return steps;
}

const std::string kChain =
    "graph { input %x : f32[4, 8] %a = Relu (%x) %b = Softmax (%a) %y = Add (%b, %a) output %y }";

TEST(DevicePlan, CopiesInputsFirstAndOutputsLast) {
  const QueuedDevice device;
  const auto plan = planned(kChain, device);
  EXPECT_THAT(steps_of(*plan),
              ElementsAre("copy to device", "device Relu", "device Softmax", "device Add", "copy to host"));
  ASSERT_EQ(plan->segments.size(), 1u);
  EXPECT_EQ(plan->segments[0].first, 0u);
  EXPECT_EQ(plan->segments[0].end, 5u);
  EXPECT_EQ(plan->staging_bytes, 2 * 128);
  EXPECT_EQ(plan->arena_bytes, 0);
  EXPECT_GE(plan->device_arena_bytes, 2 * 128);
  EXPECT_EQ(plan->steps[0].cost.bytes_read, 128);
  EXPECT_DOUBLE_EQ(plan->steps[0].expected_seconds, device.copy_seconds(128));
}

TEST(DevicePlan, LetsTheHostWaitForWhatItReads) {
  const QueuedDevice device({"Softmax"});
  const auto plan = planned(kChain, device);
  EXPECT_THAT(steps_of(*plan), ElementsAre("copy to device", "device Relu", "copy to host", "host Softmax",
                                           "copy to device", "device Add", "copy to host"));
  EXPECT_EQ(plan->steps[3].awaited_copies, std::vector<std::int32_t>{2});
  EXPECT_TRUE(plan->steps[2].is_awaited);
  EXPECT_FALSE(plan->steps[4].is_awaited);
  ASSERT_EQ(plan->segments.size(), 2u);
  EXPECT_EQ(plan->segments[0].end, 3u);
  EXPECT_EQ(plan->segments[1].first, 4u);
  EXPECT_EQ(plan->segments[1].end, 7u);
  EXPECT_THAT(plan->steps[3].rejected, ElementsAre("device queued: device 'queued' has no kernel for Softmax"));
}

// %c takes the place of %a in the host's arena, from which the queue may still have to copy.
TEST(DevicePlan, LetsTheHostWaitBeforeItWritesOverWhatIsCopied) {
  const QueuedDevice device({"Softmax", "Exp"});
  const auto plan = planned(
      "graph { input %x : f32[4, 8] %a = Softmax (%x) %b = Relu (%a) %c = Exp (%x) %y = Softmax (%c) %z = Relu (%b) "
      "output %y, %z }",
      device);
  ASSERT_THAT(steps_of(*plan), ElementsAre("host Softmax", "copy to device", "device Relu", "host Exp", "host Softmax",
                                           "device Relu", "copy to host"));
  EXPECT_EQ(plan->slots[static_cast<std::size_t>(plan->steps[0].first_output)].offset,
            plan->slots[static_cast<std::size_t>(plan->steps[3].first_output)].offset);
  EXPECT_EQ(plan->steps[3].awaited_copies, std::vector<std::int32_t>{1});
  EXPECT_TRUE(plan->steps[0].awaited_copies.empty());
}

TEST(DevicePlan, LeavesStringsAndControlFlowToTheHost) {
  const QueuedDevice device;
  const auto plan = planned("graph { input %x : string[2] %y = StringConcat (%x, %x) output %y }", device);
  EXPECT_THAT(steps_of(*plan), ElementsAre("host StringConcat"));
  EXPECT_EQ(plan->steps[0].rejected.at(0), "device queued: it handles strings");
}

}  // namespace
}  // namespace tessera::plan::device_plan_test
