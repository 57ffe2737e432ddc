#include "serve/core/models/ensemble.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "serve/core/operations/tracing.h"
#include "serve/core/requests/classification.h"
#include "serve/protocol/datatype.h"

namespace tessera::serve {
namespace {

constexpr int kMostNested = 16;

// `batched`: a batch stands before the dimensions that the configuration has.
template <typename Tensors>
std::vector<TensorInfo> infos(const Tensors& tensors, bool batched) {
  std::vector<TensorInfo> infos;
  for (const auto& tensor : tensors) {
    TensorInfo info{tensor.name(), type_of_config(tensor.data_type()), {tensor.dims().begin(), tensor.dims().end()}};
    if (batched) info.shape.insert(info.shape.begin(), -1);
    infos.push_back(std::move(info));
  }
  return infos;
}

bool is_of_shape(const Tensor& tensor, const Shape& shape) {
  return std::ranges::equal(tensor.shape(), shape,
                            [](std::int64_t size, std::int64_t wanted) { return wanted < 0 || size == wanted; });
}

// A step's message is about its own tensors, whose names the client may not know: the model's name goes before it.
Failure in_step(const Failure& failure, const std::string& model) {
  if (failure.reason() != Reason::bad_request) return failure;
  return {failure.reason(), fmt::format("step '{}': {}", model, failure.what()), failure.retry_after_s()};
}

}  // namespace

// One request on its way through the steps.
struct Ensemble::Progress {
  std::shared_ptr<Call> call;
  std::map<std::string, Tensor> tensors;  // by the ensemble's names
  std::size_t step = 0;
  std::int64_t started_ns = 0, rows = 1;
  bool draws_random_numbers = false;  // a step that is done did
};

Ensemble::Ensemble(const std::string& version, ModelSettings settings, Labels labels, Submit submit)
    : info_{settings.config.name(), version, "ensemble", std::move(settings), {}, {}},
      labels_(std::move(labels)),
      submit_(std::move(submit)) {
  inference::ModelConfig& config = info_.settings.config;
  config.set_platform("ensemble");
  const bool batched = config.max_batch_size() > 0;
  info_.inputs = infos(config.input(), batched);
  info_.outputs = infos(config.output(), batched);
  order_steps();
}

Ensemble::~Ensemble() {
  drain();
}

void Ensemble::order_steps() {
  std::set<std::string> known;
  for (const TensorInfo& input : info_.inputs) known.insert(input.name);
  std::vector<Step> left(info_.settings.config.ensemble_scheduling().step().begin(),
                         info_.settings.config.ensemble_scheduling().step().end());
  require(!left.empty(), ErrorKind::invalid_argument, "the ensemble '{}' has no steps", info_.name);
  while (!left.empty()) {
    const auto ready = std::ranges::find_if(left, [&](const Step& step) {
      return std::ranges::all_of(step.input_map(), [&](const auto& entry) { return known.contains(entry.second); });
    });
    require(ready != left.end(), ErrorKind::invalid_argument,
            "the step '{}' of the ensemble '{}' needs a tensor that no earlier step makes", left.front().model_name(),
            info_.name);
    for (const auto& [output, tensor] : ready->output_map())
      require(known.insert(tensor).second, ErrorKind::invalid_argument, "the ensemble '{}' makes '{}' twice",
              info_.name, tensor);
    steps_.push_back(*ready);
    left.erase(ready);
  }
  for (const TensorInfo& output : info_.outputs)
    require(known.contains(output.name), ErrorKind::invalid_argument, "no step of the ensemble '{}' makes '{}'",
            info_.name, output.name);
}

// Takes the inputs of the request. Throws Failure for a request that the ensemble cannot have.
void Ensemble::take_inputs(Progress& progress) const {
  const auto refuse = [](const std::string& message) { throw Failure(Reason::bad_request, message); };
  const InferenceRequest& request = progress.call->request;
  const std::int64_t most_rows = info_.settings.config.max_batch_size();
  for (const InferenceInput& input : request.inputs) {
    const auto info = std::ranges::find(info_.inputs, input.name, &TensorInfo::name);
    if (info == info_.inputs.end())
      refuse(fmt::format("model '{}' has no input '{}'", info_.name, base::shown(input.name)));
    const Tensor& tensor = input.tensor;
    if (info->dtype != tensor.dtype())
      refuse(fmt::format("input '{}' is {}, expected {}", info->name, datatype_name(tensor.dtype()),
                         datatype_name(info->dtype)));
    if (!is_of_shape(tensor, info->shape))
      refuse(fmt::format("input '{}' has the shape {}, expected {}", info->name, to_string(tensor.shape()),
                         to_string(info->shape)));
    if (most_rows > 0) {
      if (!progress.tensors.empty() && tensor.shape()[0] != progress.rows)
        refuse(fmt::format("input '{}' has {} rows, another one {}", info->name, tensor.shape()[0], progress.rows));
      progress.rows = tensor.shape()[0];
    }
    progress.tensors[input.name] = tensor;
  }
  for (const TensorInfo& info : info_.inputs) {
    if (!progress.tensors.contains(info.name)) refuse(fmt::format("input '{}' is missing", info.name));
  }
  for (const RequestedOutput& output : request.outputs) {
    if (std::ranges::find(info_.outputs, output.name, &TensorInfo::name) == info_.outputs.end())
      refuse(fmt::format("model '{}' has no output '{}'", info_.name, base::shown(output.name)));
  }
  if (most_rows > 0 && (progress.rows < 1 || progress.rows > most_rows))
    refuse(fmt::format("the request has {} rows, expected 1 to {}", progress.rows, most_rows));
}

bool Ensemble::submit(const std::shared_ptr<Call>& call) {
  auto progress = std::make_shared<Progress>();
  progress->call = call;
  progress->started_ns = Clock::steady().now_ns();
  if (call->request.timeout_ns > 0) call->deadline_ns = call->arrival_ns + call->request.timeout_ns;
  take_inputs(*progress);
  {
    const std::lock_guard lock(mutex_);
    if (draining_) return false;
    ++running_;
  }
  next_step(progress);
  return true;
}

void Ensemble::next_step(const std::shared_ptr<Progress>& progress) {
  Call& whole = *progress->call;
  try {
    if (whole.cancellation.flag().load(std::memory_order_relaxed))
      throw Failure(Reason::cancelled, "the request was cancelled");
    if (progress->step == steps_.size()) return finish(*progress, {std::nullopt, collect(*progress)});
    const Step& step = steps_[progress->step++];
    auto part = std::make_shared<Call>();
    part->arrival_ns = Clock::steady().now_ns();
    part->request.model = step.model_name();
    part->depth = whole.depth + 1;
    if (part->depth > kMostNested)
      throw Failure(Reason::bad_request, fmt::format("ensembles are nested more than {} deep at '{}'", kMostNested,
                                                     base::shown(info_.name)));
    if (step.model_version() > 0) part->request.version = std::to_string(step.model_version());
    part->request.priority = whole.request.priority;
    part->request.sequence = whole.request.sequence;
    part->times = whole.times;
    if (whole.trace) part->trace = whole.trace->begin("step " + step.model_name(), part->arrival_ns);
    if (whole.deadline_ns > 0)
      part->request.timeout_ns = std::max<std::int64_t>(whole.deadline_ns - part->arrival_ns, 1);
    for (const auto& [input, tensor] : step.input_map()) {
      const Tensor& value = progress->tensors.at(tensor);
      part->request.inputs.push_back({input, value.dtype(), value.shape(), value, {}});
    }
    for (const auto& [output, tensor] : step.output_map()) part->request.outputs.push_back({output, false, 0, {}});
    part->done = [this, progress, &step, trace = part->trace](Outcome outcome) {
      if (trace) trace->finish(Clock::steady().now_ns(), outcome.failure ? outcome.failure->what() : "");
      if (outcome.failure) return finish(*progress, {in_step(*outcome.failure, step.model_name()), {}});
      take_outputs(*progress, step, std::move(outcome.response));
      next_step(progress);
    };
    try {
      submit_(part);
    } catch (const Failure& failure) {
      throw in_step(failure, step.model_name());
    }
  } catch (...) {
    finish(*progress, {current_failure(), {}});
  }
}

void Ensemble::take_outputs(Progress& progress, const Step& step, InferenceResponse response) const {
  for (OutputTensor& output : response.outputs)
    progress.tensors[step.output_map().at(output.name)] = std::move(output.tensor);
  progress.draws_random_numbers |= response.draws_random_numbers;
}

InferenceResponse Ensemble::collect(Progress& progress) const {
  const InferenceRequest& request = progress.call->request;
  InferenceResponse response{info_.name, info_.version, request.id, {}, progress.draws_random_numbers};
  const auto add = [&](const TensorInfo& info, std::int64_t classes) {
    Tensor tensor = progress.tensors.at(info.name);
    const auto* const labels = labels_.contains(info.name) ? &labels_.at(info.name) : nullptr;
    if (info.dtype == DType::string && tensor.dtype() != DType::string && classes == 0)
      classes = info.shape.empty() || info.shape.back() < 1 ? 5 : info.shape.back();
    if (classes > 0) tensor = classify(tensor, classes, info.shape.size() > 1, labels);
    response.outputs.push_back({info.name, std::move(tensor)});
  };
  if (request.outputs.empty()) {
    for (const TensorInfo& info : info_.outputs) add(info, 0);
  }
  for (const RequestedOutput& output : request.outputs)
    add(*std::ranges::find(info_.outputs, output.name, &TensorInfo::name), output.classes);
  return response;
}

void Ensemble::finish(Progress& progress, Outcome outcome) {
  const std::int64_t now_ns = Clock::steady().now_ns();
  const std::int64_t latency_ns = now_ns - progress.call->arrival_ns;
  if (outcome.failure) statistics_.failed(latency_ns, outcome.failure->reason());
  else {
    const ExecutionTimes times{0, now_ns - progress.started_ns, 0};
    statistics_.executed(progress.rows, times);
    statistics_.succeeded(latency_ns, 0, progress.rows, times);
  }
  progress.call->done(std::move(outcome));
  const std::lock_guard lock(mutex_);
  if (--running_ == 0) idle_.notify_all();
}

StatisticsSnapshot Ensemble::statistics() const {
  StatisticsSnapshot snapshot = statistics_.snapshot();
  const std::lock_guard lock(mutex_);
  snapshot.running = running_;
  return snapshot;
}

void Ensemble::drain() {
  std::unique_lock lock(mutex_);
  draining_ = true;
  idle_.wait(lock, [this] { return running_ == 0; });
}

}  // namespace tessera::serve
