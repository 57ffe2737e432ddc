// Which kernels the operators of a training step run on.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "backends/cpu/machine/simd.h"
#include "models/models.h"
#include "plan/plan.h"
#include "runtime/session/session_access.h"
#include "tessera/session.h"
#include "train/net/training_graph.h"

namespace tessera::train::training_kernels_test {
namespace {

// Operators of the nets' training steps that have no fast kernel yet.
const std::set<std::string> kOnReferenceKernels{"NonMaxSuppression"};
// Nets whose steps cannot be built: operators on the way have no gradient.
const std::set<std::string> kWithoutGradient{};

// Whether the step computes something that takes time: no view of what is there, and no single number, as counters are.
bool computes(const plan::Step& step) {
  if (step.entry == nullptr || step.op->view) return false;
  return std::ranges::any_of(step.output_types, [](const ir::ValueType& type) {
    const std::optional<Shape> shape = type.is_tensor() ? type.shape() : std::nullopt;
    return !shape || element_count(*shape) > 1;
  });
}

// The step that brings the first output closer to a target, with the batch and lengths given.
std::optional<Model> step_of(const models::ModelEntry& entry, DType precision = DType::f32) {
  models::BuildOptions options{.dims = {{"batch", 2}}, .fill_weights = false};
  if (entry.dims.find("seq") != std::string_view::npos) options.dims["seq"] = 16;
  if (entry.dims.find("time") != std::string_view::npos) options.dims["time"] = 12;
  const ir::Graph model = models::build_model(entry.name, options);
  const ir::ValueInfo& prediction = model.value(model.outputs()[0]);
  TrainingGraphOptions training;
  training.loss.name = "mse";
  training.loss.prediction = prediction.name;
  training.target_type = DType::f32;
  training.precision = precision;
  training.target_dims = *prediction.type.dims;
  return Model(std::make_shared<const ir::Graph>(make_training_graph(model, training).graph));
}

TEST(TrainingKernels, NoOperatorOfAStepRunsOnAReferenceKernel) {
  std::map<std::string, std::set<std::string>> found;  // nets by operator
  std::set<std::string> without_gradient;
  for (const models::ModelEntry& entry : models::all_models()) {
    std::optional<Model> model;
    try {
      model = step_of(entry);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported) << entry.name << ": " << error.what();
      without_gradient.emplace(entry.name);
      continue;
    }
    NamedValues inputs;
    for (const ValueDescription& input : model->inputs())
      inputs[input.name] = Tensor(input.dtype, input.dims, nullptr, nullptr);
    Session session(*model, {.device = "cpu"});
    for (const plan::Step& step : runtime::SessionAccess::plan(session, inputs)->steps) {
      if (computes(step) && step.entry->name.starts_with("reference"))
        found[std::string(step.op->name)].emplace(entry.name);
    }
  }
  EXPECT_EQ(without_gradient, kWithoutGradient);
  std::set<std::string> operators;
  for (const auto& [op, nets] : found) {
    operators.insert(op);
    if (!kOnReferenceKernels.contains(op)) ADD_FAILURE() << op << " of " << fmt::format("{}", fmt::join(nets, ", "));
  }
  for (const std::string& op : kOnReferenceKernels)
    EXPECT_TRUE(operators.contains(op)) << op << " is on no reference kernel: take it off the list";
}

// With bfloat16 too; and convolutions, forward and back, multiply bfloat16 numbers where tile registers are.
TEST(TrainingKernels, RoundedStepsMultiplyRoundedNumbers) {
  using namespace backends::cpu;  // emulated, tile registers are there on every machine
  const ScopedIsa scoped(base::Isa::avx512, Extensions::emulated_tiles);
  const std::set<std::string_view> nets{"resnet18_cifar", "resnet8", "unet_small", "bert_mini", "lenet5"};
  std::set<std::string_view> seen;
  for (const models::ModelEntry& entry : models::all_models()) {
    if (!nets.contains(entry.name)) continue;
    seen.insert(entry.name);
    const std::optional<Model> model = step_of(entry, DType::bf16);
    NamedValues inputs;
    for (const ValueDescription& input : model->inputs())
      inputs[input.name] = Tensor(input.dtype, input.dims, nullptr, nullptr);
    Session session(*model, {.device = "cpu"});
    std::vector<std::string> in_float32;  // kernels of convolutions
    for (const plan::Step& step : runtime::SessionAccess::plan(session, inputs)->steps) {
      if (!computes(step)) continue;
      EXPECT_FALSE(step.entry->name.starts_with("reference")) << step.op->name << " of " << entry.name;
      if (step.op->name.starts_with("tessera::ChannelsLastConv") && !step.entry->name.starts_with("cpu_bf16"))
        in_float32.emplace_back(step.entry->name);
    }
    // The first layer and the gradients of the last meet the net's input and the gradient of its loss, which are
    // rounded before they are transposed.
    EXPECT_LE(in_float32.size(), 4u) << entry.name << ": " << fmt::format("{}", fmt::join(in_float32, ", "));
  }
  EXPECT_EQ(seen, nets);
}

}  // namespace
}  // namespace tessera::train::training_kernels_test
