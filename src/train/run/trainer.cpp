// Length: the loop, the log, evaluations and checkpoints share where the training stands, and each is a few lines.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "base/log.h"
#include "base/peak_memory.h"
#include "io/output_file.h"
#include "tessera/version.h"
#include "train/data/tables/column_graph.h"
#include "train/evaluation/evaluation_json.h"
#include "train/net/fake_quantisation.h"
#include "train/net/trained_model.h"
#include "train/run/data_faults.h"
#include "train/run/diagnosis.h"
#include "train/run/memory_advice.h"
#include "train/run/run_folder.h"
#include "train/run/schedule.h"
#include "train/run/trainer_state.h"

namespace tessera {

namespace {

using namespace train;
using SteadyClock = std::chrono::steady_clock;
namespace fs = std::filesystem;

double seconds_since(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

// The files that are read again during a training, or when it is resumed.
std::vector<fs::path> files_read(const TrainingConfig& config, const std::optional<fs::path>& came_from) {
  std::vector<fs::path> files;
  for (const std::string& path :
       {config.model.file, config.data.train, config.data.test, config.data.train_labels, config.data.test_labels,
        config.data.validation, config.data.validation_labels, config.model.weights,
        config.teacher ? config.teacher->net.file : "", config.teacher ? config.teacher->checkpoint : ""}) {
    if (!path.empty()) files.emplace_back(path);
  }
  if (came_from) files.push_back(*came_from);
  return files;
}

}  // namespace

std::map<std::string, Tensor> Trainer::State::weights() const {
  const VariableSnapshot snapshot = session->variables()->snapshot();
  std::map<std::string, Tensor> values;
  for (const std::string& name : parameters)
    values[name] = snapshot.variable(config.average_decay > 0 ? average_of(name) : name);
  for (const std::string& name : statistics) values[name] = snapshot.variable(name);
  return values;
}

Model Trainer::State::trained(const std::map<std::string, Tensor>& values) const {
  const Model model = config.compress
                          ? quantised_model(net, *config.compress, values, config.model.batch_norm == "frozen")
                          : with_weights(net, values);
  const std::vector<std::string> names = data.train->class_names();
  if (!data.table && names.empty()) return model;
  ir::Graph graph = data.table ? with_raw_columns(model.graph(), *data.table) : model.graph();
  if (!names.empty()) graph.metadata["property:class_names"] = class_names_text(names);
  return Model(std::make_shared<const ir::Graph>(std::move(graph)));
}

Checkpoint Trainer::State::checkpoint() const {
  Checkpoint state = at;
  const VariableSnapshot snapshot = session->variables()->snapshot();
  for (const std::string& name : snapshot.names()) {
    if (!is_within_update(name)) state.variables[name] = snapshot.variable(name);
  }
  return state;
}

void Trainer::State::resume(const std::string& path) {
  const fs::path given(path);
  came_from_ = fs::is_directory(given) ? given : given.has_parent_path() ? given.parent_path() : fs::path(".");
  newest_step_ = newest_step_in(*came_from_);
  Checkpoint found = newest_checkpoint(path);
  check_fits(found, session->variables()->snapshot(), path);
  at = std::move(found);
  for (const auto& [name, value] : at.variables) {
    if (!is_within_update(name)) session->set_variable(name, value);
  }
  at.variables.clear();
  loader->seek(at.position);
}

// Locks the output's folder, if the training may write to it.
RunFolder Trainer::State::open_output() {
  RunFolder folder(config.output);
  std::error_code ignored;
  const bool goes_on_there = came_from_ && fs::equivalent(*came_from_, config.output, ignored);
  if (goes_on_there) {
    folder.go_on_from(at.step, newest_step_);
  } else {
    if (config.overwrite) folder.clear(files_read(config, came_from_));
    else folder.require_unused();
    if (came_from_) folder.take_over_from(*came_from_);
  }
  log_ = at.step > 0 ? RunLog(file("log.jsonl"), at.step) : RunLog(file("log.jsonl"));
  if (at.step == 0) log_.add(data_summary());
  if (config.tensorboard) tensorboard_ = TensorBoardLog(file("tensorboard"), at.step);
  if (!config.toml.empty()) io::write_text(file("config.toml"), config.toml);
  // A later run of this trainer resumes there.
  came_from_ = config.output;
  newest_step_ = newest_step_in(config.output);
  return folder;
}

// The seed of the run's random operators: it differs from run to run, but repeats when a training resumes from a
// checkpoint.
std::uint64_t Trainer::State::seed_of_run() const {
  const auto run = static_cast<std::uint64_t>(at.position.epoch * loader->batches_per_epoch() + at.position.batch);
  return (config.seed + 1) * 0x9E3779B97F4A7C15 + run;
}

void Trainer::State::run_once(const TrainingHooks& hooks, const NamedValues& inputs, const RunOptions& how,
                              bool reads) {
  const std::vector<OutputRequest> wanted =
      reads ? std::vector<OutputRequest>{"gradient_norm"} : std::vector<OutputRequest>{};
  try {
    const std::vector<Value> outputs =
        hooks.run ? hooks.run(*session, inputs, wanted, how) : session->run(inputs, wanted, how);
    if (reads) gradient_norm_ = static_cast<double>(outputs[0].tensor().data<float>()[0]);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::over_budget) throw;
    std::string advice;
    try {
      advice = memory_advice(sized_net().graph(), graph_options, session_options(), inputs, config.memory_limit_bytes);
    } catch (const Error&) {
      throw error;  // there is not even memory to look for advice
    }
    fail(ErrorKind::over_budget, "{}. {}", error.message(), advice);
  }
}

void Trainer::State::step(const TrainingHooks& hooks, bool with_timings) {
  if (pruner) pruner->before_step(at.step, *session);
  learning_rate_ = learning_rate_at(config.optimiser.learning_rate, config.optimiser.schedule, at.step, steps);
  if (config.optimiser.schedule.name == "plateau") learning_rate_ *= at.plateau.share;
  NamedValues inputs;
  DataPosition position;
  if (communicator != nullptr) communicator->set_step(at.step);
  // That of the step's last batch, whichever rank runs it.
  const std::int64_t per_epoch = loader->batches_per_epoch();
  epoch_ = (at.position.epoch * per_epoch + at.position.batch + config.accumulate - 1) / per_epoch;
  std::int64_t samples = 0;
  for (std::int64_t i = 0; i < block.count; ++i) {
    const Batch batch = loader->next();
    for (const auto& [field, range] : target_ranges) check_target(batch, field, range, *loader);
    if (i == 0) position = batch.position;
    inputs = inputs_of(binding, batch.fields);
    inputs.emplace("learning_rate", Tensor::scalar(static_cast<float>(learning_rate_)));
    RunOptions how;
    at.position = batch.position;
    how.seed = seed_of_run();
    how.capture = !reads_every_step_;
    if (with_timings) how.timings = hooks.timings;
    run_once(hooks, inputs, how, reads_every_step_ || (at.step + 1) % config.log_every == 0);
    samples += batch.samples;
  }
  // All batches of a training have the same size.
  at.samples += samples / block.count * config.accumulate;
  loader->end_period();
  at.position = loader->position();
  ++at.step;
  if (reads_every_step_ || at.step % config.log_every == 0) check_finite(inputs, position);
}

// With loss scaling, steps are skipped until the scale fits. Fails if more are skipped in a row than that can explain,
// or if any is skipped without loss scaling.
void Trainer::State::check_finite(const NamedValues& inputs, const DataPosition& position) {
  const std::int64_t skipped = counter("train/skipped");
  const std::int64_t fresh = skipped - skipped_;
  skipped_ = skipped;
  if (fresh == 0) {
    reported_skipped_ = 0;
    return;
  }
  reported_skipped_ += fresh;
  constexpr std::int64_t kMostInARow = 40;  // more than the halvings from the largest scale to the smallest
  if (!config.loss_scale.on || reported_skipped_ > kMostInARow) fail_not_finite(inputs, position);
}

// Describes the first number that is not finite in the batches of a step that begin at the position; empty if all are
// finite.
std::string Trainer::State::fault_in_data(const DataPosition& position) const {
  const std::unique_ptr<Loader> again = make_loader(0);
  again->seek(position);
  std::string fault;
  for (std::int64_t i = 0; i < block.count && fault.empty(); ++i)
    fault = first_not_finite(again->next(), binding, *again);
  return fault.empty() ? "" : "the data: " + fault;
}

void Trainer::State::fail_not_finite(const NamedValues& inputs, const DataPosition& position) {
  std::string where;
  try {
    where = first_answer("fault in data", fault_in_data(position));
    if (where.empty()) {
      std::map<std::string, Tensor> variables;
      const VariableSnapshot snapshot = session->variables()->snapshot();
      for (const std::string& name : snapshot.names()) variables[name] = snapshot.variable(name);
      where = first_not_finite(step_model->graph(), inputs, variables, session_options(), {.seed = seed_of_run()});
      where = first_answer("fault in step", where);
    }
  } catch (const Error& error) {
    where = "it could not be found out where: " + error.message();
  }
  if (where.empty()) where = "it appears in an earlier step than the one that was looked at";
  const bool in_data = where.find("the data: ") != std::string::npos;
  fail(
      ErrorKind::failed,
      "training stopped at step {} (epoch {}, batch {}) because a gradient is not finite: {}. {} The weights are those "
      "before this step.",
      at.step, position.epoch, position.batch, where,
      in_data ? "Clean the data, or leave such samples out."
              : fmt::format("The training diverged: a smaller learning rate than {:g}, a longer warm-up or clip_norm "
                            "may help.",
                            learning_rate_));
}

StepReport Trainer::State::report() {
  const double total = session->variable("train/loss_sum").data<double>()[0];
  const std::int64_t runs = counter("train/loss_count");
  StepReport report;
  report.step = at.step;
  report.steps = steps;
  report.epoch = epoch_;
  report.loss = runs > at.logged_runs ? (total - at.logged_loss) / static_cast<double>(runs - at.logged_runs) : NAN;
  report.learning_rate = learning_rate_;
  report.gradient_norm = gradient_norm_;
  const double interval = seconds_since(reported_);
  const std::int64_t waited = loader->report().waited_ns;
  report.samples_per_s = static_cast<double>(at.samples - reported_samples_) / interval;
  report.data_wait_share = static_cast<double>(waited - reported_wait_ns_) * 1e-9 / interval;
  report.seconds = base_seconds_ + seconds_since(begin_);
  report.skipped = skipped_;
  at.logged_loss = total;
  at.logged_runs = runs;
  reported_ = SteadyClock::now();
  reported_samples_ = at.samples;
  reported_wait_ns_ = waited;
  return report;
}

void Trainer::State::save_checkpoint(const TrainingHooks& hooks) {
  if (config.output.empty() && communicator == nullptr) return;
  // A running evaluation is only awaited if it is not of this step; one of this step is repeated by a resumed training.
  if (pending_ && pending_->step != at.step) end_evaluation(hooks);
  if (config.output.empty()) return;
  at.seconds = base_seconds_ + seconds_since(begin_);
  const fs::path path = file(checkpoint_name(at.step));
  write_checkpoint(path, checkpoint());
  newest_step_ = at.step;
  constexpr std::size_t kKept = 2;
  const std::vector<fs::path> all = checkpoints_in(config.output);
  for (std::size_t i = kKept; i < all.size(); ++i) fs::remove(all[i]);
  if (hooks.checkpoint) hooks.checkpoint(path.string());
}

std::string Trainer::State::first_answer(const std::string& name, const std::string& own) const {
  if (communicator == nullptr) return own;
  const auto answers = communicator->gather(name, std::as_bytes(std::span(own)));
  for (std::size_t rank = 0; rank < answers.size(); ++rank) {
    if (answers[rank].empty()) continue;
    return fmt::format("on rank {}, {}", rank,
                       std::string_view(reinterpret_cast<const char*>(answers[rank].data()), answers[rank].size()));
  }
  return "";
}

void Trainer::State::check_ranks() const {
  if (communicator == nullptr) return;
  std::string net, variables;
  for (const ir::ValueId id : step_model->graph().inputs()) {
    const ir::ValueInfo& input = step_model->graph().value(id);
    net += fmt::format("{} {};", input.name, ir::to_string(input.type));
  }
  const VariableSnapshot snapshot = session->variables()->snapshot();
  for (const std::string& name : snapshot.names()) {
    if (is_within_update(name)) continue;
    const Tensor value = snapshot.variable(name);
    const auto hash =
        std::hash<std::string_view>()({static_cast<const char*>(value.raw()), static_cast<std::size_t>(value.bytes())});
    variables += fmt::format("{} {} {:x};", name, to_string(value.shape()), value.dtype() == DType::string ? 0 : hash);
  }
  const std::pair<const char*, std::string> facts[] = {
      {"the version of Tessera", TESSERA_VERSION},
      {"the inputs of the net", net},
      {"the weights and the state of the training", variables},
      {"the training data", fmt::format("{} samples, {} batches", data.train->size(), loader->batches_per_epoch())},
      {"the steps, the seed or the batches of a step",
       fmt::format("{} {} {} {}", steps, config.seed, config.accumulate, config.data.batch)},
      {"the step to begin at", fmt::format("{} {} {}", at.step, at.position.epoch, at.position.batch)},
      {"the optimiser, the loss or the precision",
       fmt::format("{} {} {} {} {}", config.optimiser.name, config.optimiser.learning_rate,
                   config.optimiser.weight_decay, config.loss.name, config.precision)}};
  for (const auto& [what, own] : facts) {
    const auto all = communicator->gather("facts", std::as_bytes(std::span(own)));
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      require(all[rank] == all[0], ErrorKind::invalid_argument,
              "rank {} differs from rank 0 in {}: start all ranks with the same configuration, files and program", rank,
              what);
    }
  }
}

TrainingResult Trainer::State::run(const TrainingHooks& hooks) {
  begin_ = reported_ = SteadyClock::now();
  base_seconds_ = at.seconds;
  reported_samples_ = at.samples;
  skipped_ = counter("train/skipped");
  check_ranks();
  const RunFolder folder = config.output.empty() ? RunFolder() : open_output();
  TrainingResult result;
  const auto cancelled = [&] { return hooks.cancellation != nullptr && hooks.cancellation->flag().load(); };
  if (at.step > 0 && at.step < steps && is_due(config.evaluate_every)) begin_evaluation(hooks);
  const std::int64_t timed_step = at.step + std::min<std::int64_t>(5, steps - at.step - 1);
  while (at.step < steps && !agreed("cancelled", cancelled()) && !result.stopped_early) {
    try {
      step(hooks, hooks.timings != nullptr && at.step == timed_step);
    } catch (...) {
      // So that the log has all lines up to the fault. Other ranks have other faults, or none.
      if (communicator == nullptr) end_evaluation(hooks);
      else if (leads() && pending_ && !pending_->reports) log_evaluation(hooks);
      throw;
    }
    if (hooks.progress) hooks.progress(at.step, steps);
    if (at.step % config.log_every == 0 || at.step == steps) {
      const StepReport line = report();
      at.loss = line.loss;
      log(line, hooks);
    }
    const bool evaluates = is_due(config.evaluate_every);
    if (evaluates) end_evaluation(hooks);
    if (is_due(config.checkpoint_every)) save_checkpoint(hooks);
    if (evaluates) begin_evaluation(hooks);
    result.stopped_early = config.patience > 0 && at.evaluations_since_best >= config.patience;
  }
  result.interrupted = at.step < steps && !result.stopped_early;
  if (result.interrupted || result.stopped_early) save_checkpoint(hooks);
  end_evaluation(hooks);
  if (!judging_data().empty() && !result.interrupted && (!last_evaluation || last_evaluation->step != at.step)) {
    begin_evaluation(hooks);
    end_evaluation(hooks);
  }
  if (!result.interrupted) run_tests(hooks, result);
  result.loss = at.loss;
  result.steps = at.step;
  result.samples = at.samples;
  result.evaluation = last_evaluation;
  result.best = at.best;
  result.seconds = at.seconds = base_seconds_ + seconds_since(begin_);
  result.peak_rss_bytes = base::peak_rss_bytes();
  result.skipped_steps = skipped_;
  const LoaderReport read = loader->report();
  result.skipped_samples = read.skipped;
  result.skipped_reasons = read.reasons;
  if (!config.output.empty() && !result.interrupted) {
    trained(weights()).save(file("model.onnx"));
    log_.add(result, config.precision);
  }
  return result;
}

Trainer::Trainer(TrainingConfig config) {
  const Model net = load_net(config.model);
  state_ = std::make_unique<State>(net, std::move(config));
}
Trainer::Trainer(const Model& model, TrainingConfig config)
    : state_(std::make_unique<State>(model, std::move(config))) {}
Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

void Trainer::resume(const std::string& folder_or_file) {
  state_->resume(folder_or_file);
}
std::int64_t Trainer::step() const {
  return state_->at.step;
}
TrainingResult Trainer::run(const TrainingHooks& hooks) {
  try {
    return state_->run(hooks);
  } catch (const std::exception& error) {
    // Ranks that wait for this one learn why it does not come.
    if (state_->communicator != nullptr) state_->communicator->stop(error.what());
    throw;
  }
}
EvaluationReport Trainer::evaluate(const std::string& data) {
  return state_->evaluate(data);
}
Model Trainer::model() const {
  return state_->trained(state_->weights());
}
void Trainer::save(const std::string& path) const {
  write_checkpoint(path, state_->checkpoint());
}
TrainedWeights Trainer::weights() const {
  TrainedWeights weights{state_->parameters, state_->reasons, 0, state_->untrained, state_->notes};
  for (const std::string& name : weights.names) weights.elements += state_->session->variable(name).elements();
  for (const std::string& name : state_->statistics) {
    if (state_->net.graph().find_value(name).valid()) weights.untrained.emplace_back(name, "a running statistic");
  }
  return weights;
}
DataSummary Trainer::data() const {
  return state_->data_summary();
}
const Model& Trainer::step_model() const {
  return *state_->step_model;
}
const TrainingConfig& Trainer::config() const {
  return state_->config;
}

}  // namespace tessera
