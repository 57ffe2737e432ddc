#include "report/measure/step_times.h"

#include <algorithm>
#include <chrono>

#include "passes/pipeline.h"
#include "report/explain/memory_timeline.h"
#include "runtime/session/random_inputs.h"

namespace tessera::report {

NamedValues inputs_to_time(const Model& model, std::uint64_t seed) {
  NamedValues inputs = runtime::random_inputs(model, seed);
  const auto rate = inputs.find("learning_rate");
  const bool trains = std::ranges::any_of(model.graph().variables(),
                                          [](const ir::Variable& variable) { return variable.name == "train/count"; });
  if (trains && rate != inputs.end()) rate->second = Tensor::scalar(1e-9f);
  return inputs;
}

std::vector<double> step_seconds(Session& session, const NamedValues& inputs, int runs, double seconds,
                                 const RunOptions& how) {
  std::vector<StepTiming> timings;
  RunOptions run = how;
  run.timings = &timings;
  session.run(inputs, how);  // makes the plan, packs weights and touches the memory
  std::vector<std::vector<double>> samples;
  const auto start = std::chrono::steady_clock::now();
  const auto enough = [&](int done) {
    return done >= runs ||
           (done >= 3 && std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > seconds);
  };
  for (int done = 0; !enough(done); ++done) {
    timings.clear();
    session.run(inputs, run);
    std::erase_if(timings, [](const StepTiming& timing) { return timing.depth > 0; });
    samples.resize(timings.size());
    for (std::size_t i = 0; i < timings.size(); ++i)
      samples[i].push_back(static_cast<double>(timings[i].duration_ns) * 1e-9);
  }
  std::vector<double> result;
  for (std::vector<double>& times : samples) {
    const auto quartile = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 4);
    std::nth_element(times.begin(), quartile, times.end());
    result.push_back(*quartile);
  }
  return result;
}

namespace {

// The bytes of a step's outputs that are written over the present values of variables.
double bytes_over_variables(const plan::Plan& plan, const plan::Step& step) {
  double bytes = 0;
  for (std::int32_t i = 0; i < step.output_count; ++i) {
    const plan::Slot& slot = plan.slots[static_cast<std::size_t>(step.first_output + i)];
    const bool is_over =
        slot.place == plan::Place::result && slot.update_of >= 0 &&
        std::ranges::find(plan.written_over, static_cast<std::size_t>(slot.update_of)) != plan.written_over.end();
    if (is_over && slot.type.is_tensor() && slot.type.shape().has_value())
      bytes += static_cast<double>(byte_count(slot.type.dtype, *slot.type.shape()));
  }
  return bytes;
}

}  // namespace

std::vector<std::optional<cost::Work>> work_of_steps(const plan::Plan& plan, cost::WorkPrecision precision) {
  std::vector<std::optional<cost::Work>> list;
  for (const plan::Step& step : plan.steps) {
    std::optional<cost::Work> work;
    if (step.kind != plan::StepKind::copy) work = cost::work_of(plan.graph, step.node, precision);
    if (work && step.kind == plan::StepKind::alias) work->cost = {}, work->weight_bytes = 0;
    // An update where the variable lies writes no more of it than it reads for that: rows of a cache, not the cache.
    const double over = work ? bytes_over_variables(plan, step) : 0;
    if (work && over > work->cost.bytes_read) work->cost.bytes_written -= over - work->cost.bytes_read;
    if (work && step.entry != nullptr) work->kernel = step.entry->name;
    list.push_back(std::move(work));
  }
  return list;
}

std::vector<std::string> passes_that_optimise() {
  static constexpr std::string_view needed[] = {"differentiate", "sink_constants", "fold_constants",
                                                "inline_constant_branches", "decompose_composites"};
  std::vector<std::string> names;
  for (const passes::Pass& pass : passes::all_passes()) {
    if (std::ranges::find(needed, pass.name) == std::end(needed)) names.emplace_back(pass.name);
  }
  return names;
}

double resident_bytes(const plan::Plan& plan) {
  return static_cast<double>(kept_bytes(plan) + plan.arena_bytes);
}

cost::Surroundings surroundings_of(const plan::Plan& plan, std::span<const std::optional<cost::Work>> works) {
  double bytes = static_cast<double>(plan.arena_bytes);
  for (const std::optional<cost::Work>& work : works) bytes += work ? work->weight_bytes : 0;
  return {bytes};
}

}  // namespace tessera::report
