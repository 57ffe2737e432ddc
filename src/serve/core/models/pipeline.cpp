#include "serve/core/models/pipeline.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "base/threads/short_slices.h"
#include "serve/core/operations/log.h"
#include "serve/core/operations/tracing.h"
#include "serve/core/requests/worker_threads.h"
#include "serve/protocol/datatype.h"

namespace tessera::serve {
namespace {

bool has(const std::vector<TensorInfo>& infos, const std::string& name) {
  return std::ranges::find(infos, name, &TensorInfo::name) != infos.end();
}

// Describes the tensors as clients see them: with the steps, no dimension is a batch that the server puts together.
template <typename Tensors>
void describe(const std::vector<TensorInfo>& infos, Tensors& tensors) {
  tensors.Clear();
  for (const TensorInfo& info : infos) {
    auto& tensor = *tensors.Add();
    tensor.set_name(info.name);
    tensor.set_data_type(config_type(info.dtype));
    for (const std::int64_t size : info.shape) tensor.add_dims(size);
  }
}

bool fits(const Shape& found, const Shape& wanted) {
  return found.size() == wanted.size() &&
         std::ranges::equal(found, wanted, [](std::int64_t a, std::int64_t b) { return b < 0 || a == b; });
}

}  // namespace

Pipeline::Pipeline(Arbiter& arbiter, std::unique_ptr<PipelineStep> before, std::shared_ptr<Servable> network,
                   std::unique_ptr<PipelineStep> after)
    : info_(network->info()),
      before_(std::move(before)),
      after_(std::move(after)),
      network_(std::move(network)),
      job_(arbiter.add_job({.name = info_.name + "/" + info_.version + "/steps",
                            .priority = info_.settings.priority,
                            .weight = info_.settings.weight})) {
  if (before_) {
    info_.inputs = before_->inputs();
    for (const TensorInfo& input : network_->info().inputs) {
      if (!has(before_->outputs(), input.name)) info_.inputs.push_back(input);
    }
  }
  if (after_) {
    for (const TensorInfo& input : after_->inputs())
      require(has(network_->info().outputs, input.name), ErrorKind::invalid_argument,
              "the step after the network needs '{}', which the model does not make", input.name);
    info_.outputs = after_->outputs();
  }
  inference::ModelConfig& config = info_.settings.config;
  config.set_max_batch_size(0);
  config.clear_dynamic_batching();
  describe(info_.inputs, *config.mutable_input());
  describe(info_.outputs, *config.mutable_output());
  start_workers(workers_, std::max(info_.settings.instances(), 2), [this] { work(); }, [this] { stop(); });
}

void Pipeline::stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
}

Pipeline::~Pipeline() {
  drain();
  stop();
  for (std::thread& worker : workers_) worker.join();
}

void Pipeline::check(const Call& call) const {
  const auto refuse = [](const std::string& message) { throw Failure(Reason::bad_request, message); };
  for (const InferenceInput& input : call.request.inputs) {
    const auto info = std::ranges::find(info_.inputs, input.name, &TensorInfo::name);
    if (info == info_.inputs.end())
      refuse(fmt::format("model '{}' has no input '{}'", info_.name, base::shown(input.name)));
    if (info->dtype != input.tensor.dtype())
      refuse(fmt::format("input '{}' is {}, expected {}", info->name, datatype_name(input.tensor.dtype()),
                         datatype_name(info->dtype)));
    if (!fits(input.tensor.shape(), info->shape))
      refuse(fmt::format("input '{}' has the shape {}, expected {}", info->name, to_string(input.tensor.shape()),
                         to_string(info->shape)));
  }
  for (const TensorInfo& info : info_.inputs) {
    const auto count = std::ranges::count(call.request.inputs, info.name, &InferenceInput::name);
    if (count != 1) refuse(fmt::format("input '{}' is {}", info.name, count == 0 ? "missing" : "there twice"));
  }
  for (const RequestedOutput& output : call.request.outputs) {
    if (!has(info_.outputs, output.name))
      refuse(fmt::format("model '{}' has no output '{}'", info_.name, base::shown(output.name)));
    if (output.classes > 0) refuse(fmt::format("output '{}' of model '{}' has no classes", output.name, info_.name));
  }
}

bool Pipeline::submit(const std::shared_ptr<Call>& call) {
  try {
    check(*call);
    auto progress = std::make_shared<Progress>();
    progress->call = call;
    const std::int64_t timeout_ns = call->request.timeout_ns > 0 ? call->request.timeout_ns : info_.settings.goal_ns;
    if (timeout_ns > 0) call->deadline_ns = call->arrival_ns + timeout_ns;
    for (const InferenceInput& input : call->request.inputs) progress->values.emplace(input.name, input.tensor);
    const std::lock_guard lock(mutex_);
    if (draining_) return false;
    if (static_cast<std::int64_t>(begins_.size()) >= info_.settings.queue_limit())
      throw Failure(Reason::unavailable, fmt::format("the queue of model '{}' is full", info_.name), 0.5);
    ++in_flight_;
    begins_.emplace_back([this, progress] { begin(progress); });
    changed_.notify_one();
    return true;
  } catch (...) {
    const Failure failure = current_failure();
    statistics_.failed(now_ns() - call->arrival_ns, failure.reason());
    throw failure;
  }
}

void Pipeline::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stops_ || !ends_.empty() || !begins_.empty(); });
    std::deque<Work>& queue = !ends_.empty() ? ends_ : begins_;
    if (queue.empty()) return;
    const Work next = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    next();
    lock.lock();
  }
}

void Pipeline::begin(const std::shared_ptr<Progress>& progress) {
  Call& whole = *progress->call;
  progress->started_ns = now_ns();
  try {
    if (whole.cancellation.flag().load(std::memory_order_relaxed))
      throw Failure(Reason::cancelled, "the request was cancelled");
    if (whole.deadline_ns > 0 && progress->started_ns >= whole.deadline_ns)
      throw Failure(Reason::deadline_exceeded, "the deadline passed while the request waited");
    if (before_) {
      NamedValues made = before_->run(job_, progress->values, whole.cancellation);
      for (auto& [name, value] : made) progress->values.insert_or_assign(name, std::move(value));
    }
    ask_network(progress);
  } catch (...) {
    finish(*progress, {current_failure(), {}});
  }
}

void Pipeline::ask_network(const std::shared_ptr<Progress>& progress) {
  const Call& whole = *progress->call;
  progress->network_ns = now_ns();
  auto part = std::make_shared<Call>();
  part->arrival_ns = progress->network_ns;
  part->request.priority = whole.request.priority;
  part->times = whole.times;
  if (whole.times) {
    whole.times->queue_ns += progress->started_ns - whole.arrival_ns;
    whole.times->run_ns += progress->network_ns - progress->started_ns;
  }
  if (whole.trace) {
    whole.trace->add("queue", whole.arrival_ns, progress->started_ns);
    if (before_) whole.trace->add("step before", progress->started_ns, progress->network_ns);
    part->trace = whole.trace->begin("network", progress->network_ns);
  }
  if (whole.deadline_ns > 0) part->request.timeout_ns = std::max<std::int64_t>(whole.deadline_ns - part->arrival_ns, 1);
  for (const TensorInfo& input : network_->info().inputs) {
    const auto found = progress->values.find(input.name);
    if (found == progress->values.end()) continue;
    const Tensor& tensor = found->second.tensor();
    part->request.inputs.push_back({input.name, tensor.dtype(), tensor.shape(), tensor, {}});
  }
  part->done = [this, progress, trace = part->trace](Outcome outcome) {
    progress->answered_ns = now_ns();
    if (trace) trace->finish(progress->answered_ns, outcome.failure ? outcome.failure->what() : "");
    if (outcome.failure) return finish(*progress, std::move(outcome));
    progress->draws_random_numbers = outcome.response.draws_random_numbers;
    for (OutputTensor& output : outcome.response.outputs)
      progress->values.insert_or_assign(output.name, std::move(output.tensor));
    // The thread that runs batches is not kept with what concerns one request.
    const std::lock_guard lock(mutex_);
    ends_.emplace_back([this, progress] { end(progress); });
    changed_.notify_one();
  };
  if (!network_->submit(part)) throw Failure(Reason::unavailable, "the model is being exchanged", 0.1);
}

void Pipeline::end(const std::shared_ptr<Progress>& progress) {
  try {
    if (after_) {
      NamedValues made = after_->run(job_, progress->values, progress->call->cancellation);
      for (auto& [name, value] : made) progress->values.insert_or_assign(name, std::move(value));
    }
    const InferenceRequest& request = progress->call->request;
    Outcome outcome;
    outcome.response = {info_.name, info_.version, request.id, {}, progress->draws_random_numbers};
    const auto add = [&](const std::string& name) {
      outcome.response.outputs.push_back({name, progress->values.find(name)->second.tensor()});
    };
    if (request.outputs.empty()) {
      for (const TensorInfo& info : info_.outputs) add(info.name);
    }
    for (const RequestedOutput& output : request.outputs) add(output.name);
    finish(*progress, std::move(outcome));
  } catch (...) {
    const Failure failure = current_failure();
    if (failure.reason() == Reason::internal)
      log_current_exception("a step after a run failed", {{"model", info_.name}, {"version", info_.version}});
    finish(*progress, {failure, {}});
  }
}

void Pipeline::finish(Progress& progress, Outcome outcome) {
  const std::int64_t now = now_ns(), latency_ns = now - progress.call->arrival_ns;
  if (outcome.failure) statistics_.failed(latency_ns, outcome.failure->reason());
  else {
    const ExecutionTimes times{progress.network_ns - progress.started_ns, progress.answered_ns - progress.network_ns,
                               now - progress.answered_ns};
    statistics_.succeeded(latency_ns, progress.started_ns - progress.call->arrival_ns, 1, times);
  }
  if (progress.call->trace && after_ && progress.answered_ns > 0 && !outcome.failure)
    progress.call->trace->add("step after", progress.answered_ns, now);
  progress.call->done(std::move(outcome));
  const std::lock_guard lock(mutex_);
  if (--in_flight_ == 0) idle_.notify_all();
}

StatisticsSnapshot Pipeline::statistics() const {
  StatisticsSnapshot snapshot = statistics_.snapshot();
  const StatisticsSnapshot runs = network_->statistics();
  snapshot.executions = runs.executions;
  snapshot.inferences = runs.inferences;
  snapshot.last_inference_ms = runs.last_inference_ms;
  snapshot.batches = runs.batches;
  snapshot.running = runs.running;
  const std::lock_guard lock(mutex_);
  snapshot.waiting = runs.waiting + static_cast<std::int64_t>(begins_.size());
  return snapshot;
}

void Pipeline::drain() {
  {
    std::unique_lock lock(mutex_);
    draining_ = true;
    idle_.wait(lock, [this] { return in_flight_ == 0; });
  }
  network_->drain();
}

}  // namespace tessera::serve
