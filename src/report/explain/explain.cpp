#include "report/explain/explain.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "backends/cpu/cpu_device.h"
#include "backends/null/null_device.h"
#include "base/error.h"
#include "base/log.h"
#include "base/threads/thread_pool.h"
#include "io/package.h"
#include "ir/graph.h"
#include "report/explain/explain_words.h"
#include "report/explain/operator_totals.h"
#include "report/measure/step_times.h"
#include "runtime/session/session_access.h"

namespace tessera::report {
namespace {

// Inputs that have shapes but no data, which is enough to make a plan.
NamedValues shapes_of_inputs(const Model& model) {
  NamedValues inputs;
  for (const ir::ValueId id : model.graph().inputs()) {
    const ir::ValueInfo& input = model.graph().value(id);
    require(input.type.is_tensor() && input.type.dims.has_value(), ErrorKind::unsupported,
            "input '{}' is {}: no shape to plan for", input.name, ir::to_string(input.type));
    Shape shape;
    for (const ir::Dim& dim : *input.type.dims) shape.push_back(dim.is_known() ? dim.value() : 1);
    inputs.emplace(input.name, Tensor(input.type.dtype, std::move(shape), nullptr, nullptr));
  }
  return inputs;
}

// The kind of device that a model is planned for: this CPU, with or without layers rounded to bfloat16, or another one.
struct Place {
  cost::DeviceKind kind = cost::DeviceKind::cpu;
  bool rounded = false;
  friend auto operator<=>(const Place&, const Place&) = default;

  SessionOptions session(SessionOptions options) const {
    options.device = (kind == cost::DeviceKind::cpu ? backends::cpu_device() : backends::null_device()).name();
    options.precision = rounded ? DType::bf16 : DType::f32;
    return options;
  }
};

// A model's plan for the CPU, or for another kind of device: then it is the same graph without this CPU's kernels.
struct Planned {
  Place place;
  std::shared_ptr<const plan::Plan> plan;
  std::vector<std::size_t> steps;  // of the plan, one per layer
  std::int64_t unknown = 0;

  Planned(const Model& model, Place where, const SessionOptions& options, std::vector<std::string> without = {})
      : place(where) {
    SessionOptions session = place.session(options);
    // Other devices do not use this CPU's memory layout and fused operators.
    if (place.kind == cost::DeviceKind::gpu) without.insert(without.end(), {"channels_last", "fuse_epilogues"});
    session.without_passes = std::move(without);
    Session planner(model, session);
    plan = runtime::SessionAccess::plan(planner, shapes_of_inputs(model));
  }

  cost::Evaluation evaluate(const cost::DeviceProfile& device, cost::Precision precision) {
    std::vector<cost::Work> works;
    steps.clear();
    unknown = 0;
    const std::vector<std::optional<cost::Work>> all =
        work_of_steps(*plan, place.rounded ? cost::WorkPrecision{} : cost::precisions_for(device, precision));
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!all[i]) {
        ++unknown;
        continue;
      }
      works.push_back(*all[i]);
      steps.push_back(i);
    }
    return cost::evaluate(std::move(works), device, precision, surroundings_of(*plan, all));
  }
};

class Explainer {
 public:
  Explainer(const Model& model, const ExplainOptions& options) : model_(model), options_(options) {}

  Explanation run(const std::string& name) {
    require(!options_.devices.empty(), ErrorKind::invalid_argument, "explain needs a device");
    const bool elsewhere =
        std::ranges::any_of(options_.devices, [](const auto& device) { return device.kind != cost::DeviceKind::cpu; });
    if (elsewhere && model_.package() != nullptr)
      warn(
          "the package was optimised for this CPU; the .onnx file that it was made from is predicted better on "
          "other devices");
    Explanation result;
    result.model = name;
    result.training = options_.training;
    result.cpu_measured = options_.cpu_measured;
    result.batch = batch();
    for (const cost::DeviceProfile& device : options_.devices)
      result.devices.push_back(report_on(device, result.batch));
    Planned& first = planned(options_.devices[0], precision_on(options_.devices[0]));
    result.memory = memory_timeline(*first.plan);
    scale(result.memory, share_of_f32(first));
    result.optimiser = compare_with_plain(result.devices[0].evaluation);
    const auto& layers = result.devices[0].evaluation.layers;
    result.products = std::ranges::count_if(layers, [](const cost::Layer& layer) { return layer.work.product; });
    if (options_.measure) result.measured = measure(result.devices);
    if (!options_.convergence.empty()) result.batch_choice = choose_batch(result.devices[0].evaluation, result.batch);
    return result;
  }

 private:
  std::int64_t batch() const {
    for (const ir::ValueId id : model_.graph().inputs()) {
      const ir::ValueType& type = model_.graph().value(id).type;
      if (type.is_tensor() && type.dims && !type.dims->empty())
        return type.dims->front().is_known() ? type.dims->front().value() : 1;
    }
    return 1;
  }

  // For a CPU, the graph is rounded to bfloat16 and planned; other precisions only change the estimate.
  Place place(const cost::DeviceProfile& device, cost::Precision precision) const {
    if (device.kind == cost::DeviceKind::gpu) return {device.kind};
    return {device.kind, precision == cost::Precision::bf16};
  }

  cost::Precision precision_on(const cost::DeviceProfile& device) const {
    return precision_on(device, options_.precision);
  }

  // On a CPU, a bfloat16 package runs in no other precision.
  cost::Precision precision_on(const cost::DeviceProfile& device, cost::Precision precision) const {
    const bool packaged = model_.package() != nullptr && model_.package()->info.precision == name_of(DType::bf16);
    return packaged && device.kind == cost::DeviceKind::cpu ? cost::Precision::bf16 : precision;
  }

  // The precision and device that a package records apply to CPUs alone; for other devices, only its graph is used.
  Model model_for(const Place& place) const {
    const bool elsewhere = place.kind == cost::DeviceKind::gpu && model_.package() != nullptr;
    return elsewhere ? Model(std::make_shared<ir::Graph>(model_.graph())) : model_;
  }

  Planned& planned(const cost::DeviceProfile& device, cost::Precision precision) {
    const Place where = place(device, precision);
    const auto known = planned_.find(where);
    if (known != planned_.end()) return known->second;
    return planned_.try_emplace(where, model_for(where), where, options_.session).first->second;
  }

  cost::Evaluation evaluate(const cost::DeviceProfile& device, cost::Precision asked) {
    const cost::Precision precision = precision_on(device, asked);
    return planned(device, precision).evaluate(device, precision);
  }

  // The factor for the plan's bytes in the requested precision. The plan was made in float32, or with rounded layers.
  double share_of_f32(const Planned& planned) const {
    return planned.place.rounded ? 1 : cost::storage_bytes(options_.precision) / 4.0;
  }

  DeviceReport report_on(const cost::DeviceProfile& device, std::int64_t batch) {
    DeviceReport report;
    Planned& own = planned(device, precision_on(device));
    report.evaluation = own.evaluate(device, precision_on(device));
    report.unknown_nodes = own.unknown;
    report.fits = resident_bytes(*own.plan) * share_of_f32(own) <= static_cast<double>(device.memory_bytes);
    const cost::Situation situation{
        .now = &report.evaluation,
        .graph = &own.plan->graph,
        .batch = batch,
        .training = options_.training,
        .elsewhere = [this](const cost::DeviceProfile& other,
                            cost::Precision precision) { return evaluate(other, precision); },
        .candidates = candidates()};
    report.advice = cost::advise(situation);
    return report;
  }

  // The other devices that were requested; if there are none, a small and a large one that are commonly rented.
  std::vector<cost::DeviceProfile> candidates() const {
    if (options_.devices.size() > 1) return options_.devices;
    std::vector<cost::DeviceProfile> devices;
    for (const char* name : {"l4", "h100-sxm"}) devices.push_back(*cost::find_built_in_profile(name));
    return devices;
  }

  OptimiserReport compare_with_plain(const cost::Evaluation& optimised) {
    Planned& own = planned(optimised.device, precision_on(optimised.device));
    Planned plain(model_for(own.place), own.place, options_.session, passes_that_optimise());
    const cost::Evaluation before = plain.evaluate(optimised.device, precision_on(optimised.device));
    const auto side = [](const Planned& planned, const cost::Evaluation& evaluation) {
      return OptimiserReport::Side{static_cast<std::int64_t>(planned.plan->graph.node_count()),
                                   evaluation.total.operations, evaluation.total.bytes, evaluation.total.seconds};
    };
    OptimiserReport report{side(plain, before), side(own, optimised), {}};
    report.passes = pass_effects(model_for(own.place), own.place.session(options_.session), *own.plan);
    report.before.nodes = static_cast<std::int64_t>(model_.graph().node_count());
    return report;
  }

  MeasuredReport measure(const std::vector<DeviceReport>& devices) {
    const auto found = std::ranges::find_if(
        devices, [](const DeviceReport& device) { return device.evaluation.device.kind == cost::DeviceKind::cpu; });
    require(found != devices.end(), ErrorKind::invalid_argument,
            "--measure runs on this CPU; ask for --device cpu beside the others");
    MeasuredReport report;
    report.device = static_cast<std::size_t>(found - devices.begin());
    const int cores = base::ThreadPool::process().cores();
    report.threads = options_.session.threads == 0 ? cores : std::min(options_.session.threads, cores);
    const std::vector<cost::Layer>& layers = found->evaluation.layers;
    const Planned& own = planned(found->evaluation.device, precision_on(found->evaluation.device));
    Session session(model_, own.place.session(options_.session));
    constexpr int runs = 30;
    constexpr double most_seconds = 5;
    const std::vector<double> seconds =
        step_seconds(session, inputs_to_time(model_, options_.run.seed.value_or(1)), runs, most_seconds, options_.run);
    report.total_seconds = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    std::vector<double> errors;
    double predicted_steps = 0;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      report.seconds.push_back(seconds[own.steps[i]]);
      predicted_steps += report.seconds.back();
      if (layers[i].estimate.bound == cost::Bound::none) continue;
      errors.push_back(std::abs(layers[i].estimate.seconds - report.seconds.back()) / report.seconds.back());
    }
    report.unpredicted_seconds = own.unknown > 0 ? report.total_seconds - predicted_steps : 0;
    if (errors.empty()) return report;
    std::ranges::sort(errors);
    report.median_error = errors[errors.size() / 2];
    report.p90_error = errors[std::min(errors.size() - 1, errors.size() * 9 / 10)];
    report.total_error = std::abs(found->evaluation.total.seconds - predicted_steps) / predicted_steps;
    return report;
  }

  cost::BatchChoice choose_batch(const cost::Evaluation& now, std::int64_t batch) const {
    require(options_.samples > 0, ErrorKind::invalid_argument,
            "a convergence table needs --samples N, the number of examples an epoch");
    return cost::choose_batch(options_.convergence, options_.samples, [&](std::int64_t size) {
      std::vector<cost::Work> works;
      for (const cost::Layer& layer : now.layers)
        works.push_back(cost::with_batch(layer.work, static_cast<double>(size) / static_cast<double>(batch)));
      return cost::evaluate(std::move(works), now.device, now.precision).total.seconds;
    });
  }

  Model model_;
  const ExplainOptions& options_;
  std::map<Place, Planned> planned_;
};

}  // namespace

Explanation explain(const Model& model, const std::string& name, const ExplainOptions& options) {
  return Explainer(model, options).run(name);
}

namespace {

// The layers of a quantised model compute in int8, whatever precision was requested.
std::string precision_words(const cost::Evaluation& evaluation) {
  const auto in_int8 = [](const cost::Layer& layer) {
    return layer.work.product && layer.work.precision == cost::Precision::int8;
  };
  const bool mixed = evaluation.precision != cost::Precision::int8 && std::ranges::any_of(evaluation.layers, in_int8);
  return fmt::format("{}{}", mixed ? "int8 and " : "", cost::name_of(evaluation.precision));
}

}  // namespace

cost::Precision counted_precision(const cost::Evaluation& evaluation) {
  return evaluation.device.supports(evaluation.precision) ? evaluation.precision : cost::Precision::f32;
}

std::string headline(const Explanation& explanation) {
  const cost::Evaluation& now = explanation.devices[0].evaluation;
  const bool measured = is_measured(explanation);
  const double seconds = measured ? explanation.measured->total_seconds : now.total.seconds;
  std::string what =
      fmt::format("{}{} {} {} a {} on {} in {}", explanation.model,
                  explanation.batch > 1 ? fmt::format(" at batch {}", explanation.batch) : "",
                  measured ? "takes" : "is predicted to take", time_text(seconds),
                  explanation.training ? "training step" : "run", now.device.title, precision_words(now));
  const std::int64_t unknown = explanation.devices[0].unknown_nodes;
  const std::string others =
      fmt::format("{} operator{} with subgraphs, or with shapes that depend on data", unknown, unknown == 1 ? "" : "s");
  if (measured) {
    const std::string rest = unknown > 0 ? fmt::format("; {} go to {}, which nothing predicts",
                                                       time_text(explanation.measured->unpredicted_seconds), others)
                                         : "";
    what += fmt::format(", measured with {} thread{} (predicted: {}{})", explanation.measured->threads,
                        explanation.measured->threads == 1 ? "" : "s", time_text(now.total.seconds), rest);
  } else if (unknown > 0) {
    what += ", without " + others;
  }
  const BoundShare most = largest_bound(explanation);
  if (most.bound == cost::Bound::none) return what + ": there is nothing to do";
  const std::string why = most.bound == cost::Bound::overhead
                              ? "goes to starting operators, not to memory or arithmetic"
                              : fmt::format("is bound by {}", cost::name_of(most.bound));
  return fmt::format("{}: {:.0f}% of {} {}", what, most.share * 100, unknown > 0 ? "the rest" : "it", why);
}

std::string gain_text(const cost::Advice& advice) {
  if (advice.gain <= 0 || advice.kind == cost::AdviceKind::upgrade || advice.kind == cost::AdviceKind::sharing)
    return "";
  return fmt::format("Saves {:.{}f}% of the time{}", advice.gain * 100, advice.gain < 0.095 ? 1 : 0,
                     advice.kind == cost::AdviceKind::batch ? " per sample" : "");
}

// At most one of each kind, with changes of the model or its settings before changes of the machine.
std::vector<const cost::Advice*> things_to_do(const DeviceReport& device) {
  std::vector<const cost::Advice*> list;
  for (const bool about_machine : {false, true}) {
    for (const cost::Advice& advice : device.advice) {
      const bool is_machine = advice.kind == cost::AdviceKind::upgrade || advice.kind == cost::AdviceKind::sharing;
      const bool has_kind =
          std::ranges::any_of(list, [&](const cost::Advice* other) { return other->kind == advice.kind; });
      if (advice.gain > 0 && is_machine == about_machine && !has_kind && list.size() < 3) list.push_back(&advice);
    }
  }
  return list;
}

}  // namespace tessera::report
