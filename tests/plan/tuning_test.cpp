#include "plan/tuning.h"

#include <gmock/gmock.h>

#include <chrono>

#include "backends/backend_table.h"
#include "base/error.h"
#include "ops/op_table.h"
#include "plan/choose_kernel.h"
#include "support/pass_context.h"

namespace tessera::plan::tuning_test {
namespace {

using backends::KernelContext;
using backends::KernelEntry;
using testing::ElementsAre;
using testing::HasSubstr;

std::map<std::string, int, std::less<>> runs;

void work(KernelContext& context, const char* name, std::chrono::microseconds time) {
  ++runs[name];
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
  std::fill_n(context.output(0).mutable_data<float>(), context.output(0).elements(), 1.0f);
}
void slow(KernelContext& context) {
  work(context, "slow", std::chrono::microseconds(400));
}
void fast(KernelContext& context) {
  work(context, "fast", std::chrono::microseconds(100));
}
void unexpected(KernelContext& context) {
  work(context, "unexpected", std::chrono::microseconds(20));
}
void failing(KernelContext&) {
  fail(ErrorKind::failed, "never works");
}

std::string few(const ops::NodeView& view) {
  return view.input(0).elements() < 4 ? "few elements" : "";
}
std::string expected_slow(const ops::NodeView&) {
  return "expected to be slow";
}

class TestDevice final : public backends::Device {
 public:
  explicit TestDevice(std::vector<KernelEntry> entries) : entries_(std::move(entries)) {
    for (const KernelEntry& entry : entries_) pointers_.push_back(&entry);
  }
  std::string_view name() const override { return "test"; }
  std::span<const KernelEntry* const> kernels_for(std::string_view op) const override {
    return op == "Neg" ? std::span<const KernelEntry* const>(pointers_) : std::span<const KernelEntry* const>();
  }

 private:
  std::vector<KernelEntry> entries_;
  std::vector<const KernelEntry*> pointers_;
};

TestDevice device_with_all() {
  return TestDevice({{.op = "Neg", .name = "failing", .function = failing},
                     {.op = "Neg", .name = "unexpected", .avoid = expected_slow, .function = unexpected},
                     {.op = "Neg", .name = "slow", .function = slow},
                     {.op = "Neg", .name = "fast", .reject = few, .function = fast}});
}

class NoWeights final : public backends::WeightStore {
 public:
  std::shared_ptr<const backends::PackedWeights> find_or_pack(const Tensor&, std::string_view, std::int64_t,
                                                              const backends::PackFunction&) override {
    return nullptr;
  }
};

std::shared_ptr<const Plan> plan_of(const backends::Device& device, Tuner* tuner, const std::string& shape = "[8]",
                                    int threads = 0) {
  runs.clear();
  NoWeights weights;
  const ir::Graph graph = test::parsed("graph { input %x : f32" + shape + " %y = Neg (%x) output %y }");
  return make_plan(graph, device, weights, {.max_threads = threads, .tuner = tuner});
}

std::string_view kernel_of(const Plan& plan) {
  return plan.steps.at(0).entry->name;
}

TEST(Tuner, TakesWhatIsMeasuredToBeTheFastest) {
  const TestDevice device(
      {{.op = "Neg", .name = "slow", .function = slow}, {.op = "Neg", .name = "fast", .function = fast}});
  Tuner tuner({});
  const auto plan = plan_of(device, &tuner);
  EXPECT_EQ(kernel_of(*plan), "fast");
  EXPECT_GE(runs["slow"], 2);
  EXPECT_GE(runs["fast"], 5);
  ASSERT_EQ(plan->steps[0].rejected.size(), 1u);
  EXPECT_THAT(plan->steps[0].rejected[0], testing::StartsWith("slow: measured "));
  const TuningTable table = tuner.table();
  ASSERT_EQ(table.size(), 1u);
  const MeasuredKernels& measured = table.begin()->second;
  EXPECT_EQ(measured.fastest, "fast");
  EXPECT_GE(measured.seconds.at("slow"), 400e-6);
  EXPECT_GE(measured.seconds.at("fast"), 100e-6);
}

TEST(Tuner, WithoutOneTheOrderOfTheTableDecides) {
  EXPECT_EQ(kernel_of(*plan_of(TestDevice({{.op = "Neg", .name = "slow", .function = slow},
                                           {.op = "Neg", .name = "fast", .function = fast}}),
                               nullptr)),
            "slow");
  EXPECT_TRUE(runs.empty());
}

TEST(Tuner, TriesKernelsThatAreExpectedToBeSlowAndLeavesOutThoseThatFail) {
  const TestDevice device({{.op = "Neg", .name = "unexpected", .avoid = expected_slow, .function = unexpected},
                           {.op = "Neg", .name = "slow", .function = slow},
                           {.op = "Neg", .name = "failing", .function = failing}});
  const auto untuned = plan_of(device, nullptr);
  EXPECT_EQ(kernel_of(*untuned), "slow");
  EXPECT_THAT(untuned->steps[0].rejected, ElementsAre("unexpected: expected to be slow"));
  Tuner tuner({});
  EXPECT_EQ(kernel_of(*plan_of(device, &tuner)), "unexpected");
  EXPECT_FALSE(tuner.table().begin()->second.seconds.contains("failing"));
}

TEST(Tuner, MeasuresNothingThatItKnows) {
  const TestDevice device = device_with_all();
  std::vector<double> told;
  Tuner first({}, [&](std::string_view, double done) { told.push_back(done); });
  plan_of(device, &first);
  EXPECT_THAT(told, ElementsAre(0, 1));
  TuningTable table = first.table();
  table.begin()->second.fastest = "slow";  // a choice that no measuring would make
  told.clear();
  Tuner second(table, [&](std::string_view, double done) { told.push_back(done); });
  EXPECT_EQ(kernel_of(*plan_of(device, &second)), "slow");
  EXPECT_TRUE(runs.empty());
  EXPECT_TRUE(told.empty());
  EXPECT_EQ(kernel_of(*plan_of(device, &second, "[9]")), "unexpected") << "another shape is measured";
}

TEST(Tuner, MeasuresAnewWhereTheKnownKernelIsNotThere) {
  const TestDevice device = device_with_all();
  Tuner first({});
  plan_of(device, &first);
  for (const char* name : {"a kernel of another version", ""}) {
    TuningTable table = first.table();
    table.begin()->second.fastest = name;
    Tuner second(table);
    EXPECT_EQ(kernel_of(*plan_of(device, &second)), "unexpected") << name;
    EXPECT_EQ(second.table().begin()->second.fastest, "unexpected");
  }
}

TEST(Tuner, IsNotAskedWhereOneKernelTakesTheNode) {
  const TestDevice device({{.op = "Neg", .name = "fast", .reject = few, .function = fast},
                           {.op = "Neg", .name = "slow", .function = slow}});
  Tuner tuner({});
  EXPECT_EQ(kernel_of(*plan_of(device, &tuner, "[3]")), "slow");
  EXPECT_TRUE(runs.empty());
  EXPECT_TRUE(tuner.table().empty());
}

TEST(Tuner, LeavesDevicesThatComputeNothingAlone) {
  Tuner tuner({});
  const auto plan = plan_of(backends::find_device("null"), &tuner);
  EXPECT_TRUE(tuner.table().empty());
}

TEST(TuningKey, NamesAllThatSpeedDependsOn) {
  const ops::OpDef& op = *ops::find_op("Clip");
  const Tensor low = Tensor::scalar(0.0f);
  const auto key = [&](const ir::Attributes& attributes, const Shape& shape, bool constant, int threads) {
    const ir::Node node{"Clip", "somewhere", {{0}, {1}}, {{2}}, attributes, 0};
    const std::vector<ops::TensorType> inputs{{DType::f32, shape}, {DType::f32, {}}}, outputs{{DType::f32, shape}};
    const std::vector<const Tensor*> constants{nullptr, constant ? &low : nullptr};
    return tuning_key(ops::NodeView(node, op, inputs, outputs, constants), threads);
  };
  EXPECT_EQ(key({}, {2, 3}, true, 2), "Clip (f32[2, 3], f32[] constant) -> f32[2, 3], 2 threads");
  EXPECT_EQ(key({{"a", std::int64_t{1}}, {"b", std::string("x")}}, {2}, false, 1),
            "Clip {a = 1, b = \"x\"} (f32[2], f32[]) -> f32[2], 1 thread");
}

TEST(AcceptingKernels, StandInsOfTheReferenceAreNotAmongThem) {
  const ops::OpDef& op = *ops::find_op("Relu");
  const ir::Node node{"Relu", "", {{0}}, {{1}}, {}, 0};
  const std::vector<ops::TensorType> types{{DType::f32, {4}}}, halves{{DType::bf16, {4}}};
  const std::vector<const Tensor*> constants{nullptr};
  const ops::NodeView view(node, op, types, types, constants), of_halves(node, op, halves, halves, constants);
  const auto names = [&](const char* device) {
    std::vector<std::string> found;
    for (const KernelEntry* entry : accepting_kernels(backends::find_device(device), view))
      found.emplace_back(entry->name);
    return found;
  };
  EXPECT_THAT(names("cpu"), ElementsAre("cpu_relu"));
  EXPECT_THAT(names("reference"), ElementsAre("reference_relu"));
  EXPECT_TRUE(accepts(backends::find_device("cpu"), view));
  EXPECT_FALSE(accepts(backends::find_device("cpu"), of_halves));
  EXPECT_TRUE(accepts(backends::find_device("reference"), of_halves));
  EXPECT_FALSE(accepts(backends::find_device("null"), view));
  for (const KernelEntry* entry : backends::find_device("cpu").kernels_for("Relu"))
    EXPECT_EQ(entry->is_stand_in, entry->name == "reference_relu") << entry->name;
  for (const KernelEntry* entry : backends::find_device("reference").kernels_for("Relu"))
    EXPECT_FALSE(entry->is_stand_in);
}

}  // namespace
}  // namespace tessera::plan::tuning_test
