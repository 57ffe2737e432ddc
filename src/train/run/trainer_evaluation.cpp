// Evaluates a training while it goes on and tests it at its end.
#include <cstring>
#include <utility>

#include "base/error.h"
#include "train/run/trainer_state.h"

namespace tessera {

using train::Evaluator;

EvaluationReport Trainer::State::evaluate(const std::string& name) {
  EvaluationReport report = evaluator_of(name).run(weights());
  report.step = at.step;
  return report;
}

// The evaluation of step s runs beside the following steps. Decisions that depend on it (best model, early stopping)
// are made when the next one begins, so that results do not depend on its speed.
void Trainer::State::begin_evaluation(const TrainingHooks& hooks) {
  end_evaluation(hooks);
  if (judging_data().empty()) return;
  pending_.emplace();
  pending_->step = at.step;
  if (!leads()) {
    if (config.optimiser.schedule.name == "plateau") end_evaluation(hooks);
    return;
  }
  Evaluator* const judge = &evaluator_of(judging_data());
  Evaluator* const training = config.evaluate_training ? &evaluator_of("train") : nullptr;
  pending_->result = std::async(std::launch::async, [this, judge, training, values = weights(), step = at.step] {
    std::vector<EvaluationReport> reports{judge->run(values)};
    // Only a net with the final sparsity can be the best one.
    const bool counts = !pruner || pruner->is_complete(step);
    const bool better = counts && (!at.best || train::is_better(reports[0].metric, reports[0].value, at.best->value));
    reports[0].best = better;
    if (better && !config.output.empty()) trained(values).save(file("best.onnx"));
    if (better && data.validation && data.test) best_ = values;
    if (training != nullptr) reports.push_back(training->run(values));
    for (EvaluationReport& report : reports) report.step = step;
    return reports;
  });
  // The next step's learning rate depends on the evaluation.
  if (config.optimiser.schedule.name == "plateau") end_evaluation(hooks);
}

void Trainer::State::tell(const EvaluationReport& report, const TrainingHooks& hooks) {
  log_.add(report);
  tensorboard_.add(report);
  if (hooks.evaluation) hooks.evaluation(report);
}

void Trainer::State::end_evaluation(const TrainingHooks& hooks) {
  if (!pending_) return;
  if (leads() && !pending_->reports) log_evaluation(hooks);
  const EvaluationReport report = shared_report(leads() ? std::optional(pending_->reports->front()) : std::nullopt);
  pending_.reset();
  last_evaluation = report;
  if (report.best) at.best = report;
  const bool counts = !pruner || pruner->is_complete(report.step);
  at.evaluations_since_best = report.best || !counts ? 0 : at.evaluations_since_best + 1;
  at.plateau.add(report.best, config.optimiser.schedule);
}

// Waits for the evaluation and logs it, followed by the lines of the later steps.
void Trainer::State::log_evaluation(const TrainingHooks& hooks) {
  const std::vector<StepReport> later = std::exchange(pending_->later, {});
  try {
    pending_->reports = pending_->result.get();
  } catch (...) {
    pending_.reset();
    for (const StepReport& line : later) log(line, hooks);
    throw;
  }
  for (const EvaluationReport& report : *pending_->reports) tell(report, hooks);
  for (const StepReport& line : later) log(line, hooks);
}

// The figures of the evaluation by rank 0 that later steps need, on every rank.
EvaluationReport Trainer::State::shared_report(const std::optional<EvaluationReport>& own) const {
  if (communicator == nullptr) return *own;
  struct Figures {
    std::int64_t step, samples;
    double value, loss;
    bool best;
  } figures{};
  if (own) figures = {own->step, own->samples, own->value, own->loss, own->best};
  const std::vector<std::byte> told = communicator->broadcast("evaluation", std::as_bytes(std::span(&figures, 1)));
  if (own) return *own;
  require(told.size() == sizeof figures, ErrorKind::failed, "rank 0 tells {} bytes of its evaluation, expected {}",
          told.size(), sizeof figures);
  std::memcpy(&figures, told.data(), sizeof figures);
  EvaluationReport report;
  report.step = figures.step;
  report.metric = config.metric;
  report.value = figures.value;
  report.loss = figures.loss;
  report.samples = figures.samples;
  report.best = figures.best;
  report.data = judging_data();
  return report;
}

void Trainer::State::log(const StepReport& report, const TrainingHooks& hooks) {
  if (!leads()) {
    if (hooks.step) hooks.step(report);
    return;
  }
  if (pending_ && !pending_->reports) {
    pending_->later.push_back(report);
    if (pending_->result.wait_for(std::chrono::seconds(0)) == std::future_status::ready) log_evaluation(hooks);
    return;
  }
  log_.add(report);
  tensorboard_.add(report);
  if (hooks.step) hooks.step(report);
}

// The weights of the best evaluation. If the training resumed from a checkpoint, they may be those of its file, unless
// that has another form of the net.
std::optional<Trainer::State::Weights> Trainer::State::best_weights() const {
  if (best_ || config.output.empty() || !std::filesystem::exists(file("best.onnx"))) return best_;
  const ir::Graph graph = Model::load(file("best.onnx").string()).graph();
  Weights values;
  for (const auto* names : {&parameters, &statistics}) {
    for (const std::string& name : *names) {
      const ir::ValueId id = graph.find_value(name);
      if (!id.valid() || !graph.is_constant(id)) return std::nullopt;
      values[name] = *graph.constant(id);
    }
  }
  return values;
}

EvaluationReport Trainer::State::test(const Weights& values, std::int64_t step, const TrainingHooks& hooks) {
  EvaluationReport report = evaluator_of("test").run(values);
  report.step = step;
  report.of_best = step != at.step;
  report.best = at.best && at.best->step == step;
  tell(report, hooks);
  return report;
}

// Evaluates the test data once at the end, if other data judge the training meanwhile.
void Trainer::State::run_tests(const TrainingHooks& hooks, TrainingResult& result) {
  if (!data.validation || !data.test || !leads()) return;
  result.test = test(weights(), at.step, hooks);
  if (!at.best) return;
  if (at.best->step == at.step) {
    result.best_test = result.test;
  } else if (const std::optional<Weights> best = best_weights()) {
    result.best_test = test(*best, at.best->step, hooks);
  }
}

}  // namespace tessera
