#include "serve/core/models/served_model.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "base/threads/short_slices.h"
#include "serve/core/models/served_model_options.h"
#include "serve/core/operations/log.h"
#include "serve/core/operations/tracing.h"
#include "serve/core/requests/classification.h"
#include "serve/core/requests/worker_threads.h"
#include "serve/protocol/datatype.h"

namespace tessera::serve {
namespace {

constexpr double kRetrySeconds = 0.5;
constexpr std::int64_t kMostHere_ns = 3'000'000;  // that a run may hold the thread of its request
constexpr std::chrono::seconds kKeepMemory{1};    // of batches, while no requests come
constexpr std::int64_t kWayShare = 20;            // of a goal, one in so many parts is kept for the way to the client
constexpr std::size_t kSpareBuffers = 3;          // beside those that are computed: two that form, one on its way
constexpr std::uint64_t kLeastImportant = std::numeric_limits<std::uint64_t>::max();

// Where the time of a request's batch went.
void add_spans(RequestTrace& trace, const QueuedCall& queued, std::int64_t rows, std::int64_t started_ns,
               const ExecutionTimes& times) {
  trace.add("queue", queued.queued_ns, started_ns);
  const std::int64_t gathered_ns = started_ns + times.input_ns, ran_ns = gathered_ns + times.infer_ns;
  const std::string compute =
      trace.add("compute", started_ns, ran_ns + times.output_ns, {{"batch.rows", rows}, {"request.rows", queued.rows}});
  trace.add("compute input", started_ns, gathered_ns, {}, compute);
  trace.add("compute infer", gathered_ns, ran_ns, {}, compute);
  trace.add("compute output", ran_ns, ran_ns + times.output_ns, {}, compute);
}

ModelSettings completed(ModelSettings settings, const Model& model) {
  complete_settings(settings, model);
  return settings;
}

}  // namespace

ServedModel::ServedModel(Arbiter& arbiter, const Model& model, const std::string& version, ModelSettings settings,
                         Labels labels, RunTimeline* timeline)
    : info_{settings.config.name(), version, {}, completed(std::move(settings), model), {}, {}},
      labels_(std::move(labels)),
      batched_(info_.settings.config.max_batch_size() > 0),
      input_reshapes_(reshapes(info_.settings.config.input())),
      output_reshapes_(reshapes(info_.settings.config.output())),
      session_(model, session_options(info_.settings)),
      job_(arbiter.add_job(job_options(info_.settings, version))),
      timeline_(timeline),
      timeline_number_(timeline != nullptr ? timeline->number_of(info_.name + "/" + version) : 0),
      rule_(batching_rule(info_.settings)),
      most_rows_(rule_.most_rows),
      queue_(rule_),
      staging_(most_rows_, static_cast<std::size_t>(info_.settings.instances()) + kSpareBuffers) {
  info_.platform = info_.settings.config.platform();
  info_.inputs = infos(model.inputs(), info_.settings.config.input(), batched_);
  info_.outputs = infos(model.outputs(), info_.settings.config.output(), batched_);
  warm_up();
  start_workers(workers_, info_.settings.instances(), [this] { work(); }, [this] { stop(); });
}

void ServedModel::stop() {
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    queue_.stop_waiting();
  }
  changed_.notify_all();
}

ServedModel::~ServedModel() {
  drain();
}

// The expected time of a run for the request alone: what the arbiter saw of runs on inputs of its shapes, which may
// differ in more than rows. The caller holds the mutex.
std::int64_t ServedModel::predicted_alone_ns(const QueuedCall& queued) const {
  const std::int64_t known_ns = job_.predicted_ns(session_, queued.inputs);
  return known_ns > 0 ? known_ns : times_.predicted_ns(queued.rows);
}

// Returns an input of the right shape as the model takes it.
Tensor ServedModel::for_model(const std::string& input, const Tensor& tensor) const {
  const auto reshape = input_reshapes_.find(input);
  return reshape == input_reshapes_.end() ? tensor : reshape->second.apply(tensor, batched_);
}

QueuedCall ServedModel::check(const std::shared_ptr<Call>& call) const {
  QueuedCall queued;
  queued.call = call;
  const auto refuse = [&](std::string message) { throw Failure(Reason::bad_request, std::move(message)); };
  for (const InferenceInput& input : call->request.inputs) {
    const auto info = std::ranges::find(info_.inputs, input.name, &TensorInfo::name);
    if (info == info_.inputs.end())
      refuse(fmt::format("model '{}' has no input '{}'", info_.name, base::shown(input.name)));
    const Tensor& tensor = input.tensor;
    if (tensor.dtype() != info->dtype)
      refuse(fmt::format("input '{}' is {}, expected {}", info->name, datatype_name(tensor.dtype()),
                         datatype_name(info->dtype)));
    const bool fits = tensor.shape().size() == info->shape.size() &&
                      std::ranges::equal(tensor.shape(), info->shape, [](std::int64_t found, std::int64_t wanted) {
                        return wanted < 0 || found == wanted;
                      });
    if (!fits)
      refuse(fmt::format("input '{}' has the shape {}, expected {}", info->name, to_string(tensor.shape()),
                         to_string(info->shape)));
    if (batched_) {
      if (!queued.inputs.empty() && tensor.shape()[0] != queued.rows)
        refuse(fmt::format("input '{}' has {} rows, another one {}", info->name, tensor.shape()[0], queued.rows));
      queued.rows = tensor.shape()[0];
      Shape row = tensor.shape();
      row.erase(row.begin());
      queued.kind += to_string(row);
    } else queued.kind += to_string(tensor.shape());
    if (!queued.inputs.emplace(info->name, for_model(info->name, tensor)).second)
      refuse(fmt::format("input '{}' is there twice", info->name));
  }
  for (const TensorInfo& info : info_.inputs) {
    if (!queued.inputs.contains(info.name)) refuse(fmt::format("input '{}' is missing", info.name));
  }
  for (const RequestedOutput& output : call->request.outputs) {
    if (std::ranges::find(info_.outputs, output.name, &TensorInfo::name) == info_.outputs.end())
      refuse(fmt::format("model '{}' has no output '{}'", info_.name, base::shown(output.name)));
  }
  if (batched_ && (queued.rows < 1 || queued.rows > info_.settings.config.max_batch_size()))
    refuse(
        fmt::format("the request has {} rows, expected 1 to {}", queued.rows, info_.settings.config.max_batch_size()));
  return queued;
}

// While everything is refused nothing is measured. Now and then a request is computed, even if it is late for the
// model's goal, so that a prediction from a time when the machine was slow does not last. With the mutex held.
bool ServedModel::is_trial(const Call& call, std::int64_t now_ns) const {
  return call.request.timeout_ns == 0 && running_ == 0 && queue_.size() == 0 && times_.is_stale(now_ns);
}

// Refuses at once what would come too late or has no room to wait. With the mutex held.
void ServedModel::admit(Call& call, QueuedCall& queued, std::uint64_t priority) {
  const std::int64_t now = now_ns();
  const std::int64_t full = most_rows_;
  const std::int64_t before = queue_.rows_before(priority);
  const std::int64_t busy_ns =
      running_ >= info_.settings.instances() ? std::max<std::int64_t>(running_until_ns_ - now, 0) : 0;
  const std::int64_t wait_ns = busy_ns + before / full * times_.predicted_ns(full) + job_.ahead_ns();
  const double retry_s = std::max(static_cast<double>(wait_ns) * 1e-9, 0.05);
  if (queue_.size() >= info_.settings.queue_limit())
    throw Failure(Reason::unavailable, fmt::format("the queue of model '{}' is full", info_.name), retry_s);
  std::int64_t timeout_ns = call.request.timeout_ns;
  const auto& policy = info_.settings.config.dynamic_batching().default_queue_policy();
  const std::int64_t usual_ns = static_cast<std::int64_t>(policy.default_timeout_microseconds()) * 1000;
  if (policy.timeout_action() == inference::ModelQueuePolicy::DELAY && usual_ns > 0)
    queued.postponed_ns = call.arrival_ns + usual_ns;
  else if (timeout_ns == 0) timeout_ns = usual_ns;
  const bool is_goal = timeout_ns == 0;
  if (is_goal) timeout_ns = info_.settings.goal_ns;
  if (timeout_ns == 0) return;
  // The goal is for the client, to whom the answer has a way to go yet.
  call.deadline_ns = call.arrival_ns + timeout_ns - (is_goal ? timeout_ns / kWayShare : 0);
  // It is computed together with what is left of the requests before it.
  const std::int64_t rest = before % full;
  const std::int64_t run_ns = rest == 0
                                  ? predicted_alone_ns(queued)
                                  : times_.predicted_ns(std::min(rest + queued.rows, std::max(full, queued.rows)));
  if (now + wait_ns + run_ns <= call.deadline_ns) return;
  if (is_trial(call, now)) call.deadline_ns = 0;
  else
    throw Failure(Reason::unavailable,
                  fmt::format("model '{}' is too busy to answer within {:.1f} ms", info_.name,
                              static_cast<double>(timeout_ns) * 1e-6),
                  retry_s);
}

// Whether the request would be computed at once and alone in any case, shortly, and the device is free. With the mutex
// held.
bool ServedModel::can_run_here(const QueuedCall& queued) const {
  if (!queued.call->may_run_here || queue_.size() > 0 || running_ >= info_.settings.instances()) return false;
  if (rule_.delay_ns > 0 && queued.rows < most_rows_) return false;
  // The first run on inputs of some shapes plans, which may take long.
  const std::int64_t run_ns = job_.predicted_ns(session_, queued.inputs);
  return run_ns > 0 && run_ns <= kMostHere_ns && job_.ahead_ns() == 0;
}

// Copies a request that will wait for others to where it will be computed. Unlocks meanwhile.
void ServedModel::stage(QueuedCall& queued, std::unique_lock<std::mutex>& lock) {
  const bool waits = queue_.size() > 0 || running_ >= info_.settings.instances() || rule_.delay_ns > 0;
  if (!waits || !staging_.reserve(queued)) return;
  lock.unlock();
  write_to_place(queued);
  lock.lock();
}

// Spares the request two changes of thread.
void ServedModel::run_here(QueuedCall queued, std::unique_lock<std::mutex> lock) {
  ++running_;
  running_until_ns_ = now_ns() + predicted_alone_ns(queued);
  lock.unlock();
  Batch batch;
  batch.push_back(std::move(queued));
  Gatherer unused;  // for a request that is alone
  run(std::move(batch), unused);
  lock.lock();
  --running_;
  if (queue_.size() > 0 || draining_) changed_.notify_all();
}

bool ServedModel::submit(const std::shared_ptr<Call>& call) {
  std::unique_lock lock(mutex_, std::defer_lock);
  QueuedCall queued;
  try {
    queued = check(call);
    lock.lock();
    if (draining_) return false;
    const std::uint64_t usual =
        std::max<std::uint64_t>(info_.settings.config.dynamic_batching().default_priority_level(), 1);
    const std::uint64_t priority = call->request.priority != 0 ? call->request.priority : usual;
    admit(*call, queued, priority);
    queued.queued_ns = now_ns();
    if (!can_run_here(queued)) {
      stage(queued, lock);
      if (draining_) return false;
      std::vector<InferenceInput> copied;
      // What has been copied gives its memory back here, for the next request of this thread.
      if (queued.staging != nullptr) copied = std::exchange(call->request.inputs, {});
      queue_.add(priority, std::move(queued));
      changed_.notify_one();
      lock.unlock();
      return true;
    }
  } catch (...) {
    const Failure failure = current_failure();
    statistics_.failed(now_ns() - call->arrival_ns, failure.reason());
    throw failure;
  }
  run_here(std::move(queued), std::move(lock));
  return true;
}

void ServedModel::refuse(const QueuedCall& queued, const Failure& failure) {
  statistics_.failed(now_ns() - queued.call->arrival_ns, failure.reason());
  queued.call->done({failure, {}});
}

void ServedModel::work() {
  Gatherer gatherer;
  std::unique_lock lock(mutex_);
  while (true) {
    if (running_ >= info_.settings.instances()) {  // a request's own thread computes
      changed_.wait(lock);
      continue;
    }
    // What is computed now is answered when its batch has run: later than a deadline, it is not worth computing.
    const std::int64_t next_rows = std::min(queue_.rows_before(kLeastImportant), most_rows_);
    const std::int64_t run_ns = times_.predicted_ns(next_rows);
    queue_.postpone(now_ns());
    const std::vector<QueuedCall> lapsed = queue_.take_lapsed(now_ns() + run_ns);
    Batch batch = queue_.take_batch(now_ns(), run_ns);
    staging_.close(batch);
    if (lapsed.empty() && batch.empty()) {
      if (queue_.size() == 0) {
        if (draining_) return;
        if (!gatherer.keeps_memory() && !staging_.keeps_memory()) changed_.wait(lock);
        else if (changed_.wait_for(lock, kKeepMemory) == std::cv_status::timeout) {
          gatherer.release();
          staging_.release();
        }
      } else {
        changed_.wait_for(lock, std::chrono::nanoseconds(std::max<std::int64_t>(queue_.look_again_ns() - now_ns(), 1)));
      }
      continue;
    }
    std::int64_t rows = 0;
    for (const QueuedCall& queued : batch) rows += queued.rows;
    ++running_;
    running_until_ns_ = now_ns() + times_.predicted_ns(rows);
    lock.unlock();
    for (const QueuedCall& queued : lapsed) {
      if (queued.call->cancellation.flag().load(std::memory_order_relaxed))
        refuse(queued, Failure(Reason::cancelled, "the request was cancelled"));
      else if (queued.call->deadline_ns <= now_ns())
        refuse(queued, Failure(Reason::deadline_exceeded, "the deadline passed while the request waited"));
      else refuse(queued, Failure(Reason::unavailable, "the answer would come after the deadline", kRetrySeconds));
    }
    if (!batch.empty()) run(std::move(batch), gatherer);
    lock.lock();
    --running_;
  }
}

NamedValues ServedModel::run_session(const Batch& batch, const NamedValues& inputs, std::int64_t rows) {
  std::optional<TimelineRun> shown;
  if (timeline_ != nullptr) shown.emplace(*timeline_, timeline_number_, rows);
  RunOptions options;
  if (batch.size() == 1) options.cancellation = &batch.front().call->cancellation;
  return job_.run(session_, inputs, options);
}

void ServedModel::run(Batch batch, Gatherer& gatherer) {
  const std::int64_t started_ns = now_ns();
  std::int64_t rows = 0;
  for (const QueuedCall& queued : batch) rows += queued.rows;
  NamedValues results;
  ExecutionTimes times;
  try {
    const NamedValues inputs = gatherer.gather(batch);
    const std::int64_t gathered_ns = now_ns();
    results = run_session(batch, inputs, rows);
    const std::int64_t done_ns = now_ns();
    times = {gathered_ns - started_ns, done_ns - gathered_ns, 0};
    const std::lock_guard lock(mutex_);
    times_.add(rows, done_ns - gathered_ns, done_ns);
  } catch (...) {
    const Failure failure = current_failure();
    log_current_exception("a run failed", {{"model", info_.name}, {"version", info_.version}});
    if (batch.size() == 1) return refuse(batch.front(), failure);
    // One request's data may be to blame: each gets its own chance.
    for (QueuedCall& queued : batch) {
      Batch alone;
      alone.push_back(std::move(queued));
      run(std::move(alone), gatherer);
    }
    return;
  }
  statistics_.executed(rows, times);
  std::int64_t first = 0;
  for (const QueuedCall& queued : batch) {
    answer(queued, results, rows, first, started_ns, times);
    first += queued.rows;
  }
}

void ServedModel::answer(const QueuedCall& queued, const NamedValues& results, std::int64_t rows, std::int64_t first,
                         std::int64_t started_ns, ExecutionTimes times) {
  const InferenceRequest& request = queued.call->request;
  const std::int64_t begin_ns = now_ns();
  Outcome outcome;
  try {
    outcome.response = {info_.name, info_.version, request.id, {}, session_.draws_random_numbers()};
    const auto add = [&](const std::string& name, std::int64_t classes) {
      const Tensor& whole = results.find(name)->second.tensor();
      Tensor own = batched_ ? rows_of(name, whole, rows, first, queued.rows) : whole;
      if (const auto reshape = output_reshapes_.find(name); reshape != output_reshapes_.end())
        own = reshape->second.apply(own, batched_);
      if (classes > 0) own = classify(own, classes, batched_, labels_.contains(name) ? &labels_.at(name) : nullptr);
      outcome.response.outputs.push_back({name, std::move(own)});
    };
    if (request.outputs.empty()) {
      for (const TensorInfo& info : info_.outputs) add(info.name, 0);
    }
    for (const RequestedOutput& output : request.outputs) add(output.name, output.classes);
  } catch (...) {
    return refuse(queued, current_failure());
  }
  const std::int64_t done_ns = now_ns();
  times.output_ns = done_ns - begin_ns;
  if (queued.call->times) {
    queued.call->times->queue_ns += started_ns - queued.queued_ns;
    queued.call->times->run_ns += times.input_ns + times.infer_ns + times.output_ns;
  }
  if (queued.call->trace) add_spans(*queued.call->trace, queued, rows, started_ns, times);
  statistics_.succeeded(done_ns - queued.call->arrival_ns, started_ns - queued.queued_ns, queued.rows, times);
  queued.call->done(std::move(outcome));
}

StatisticsSnapshot ServedModel::statistics() const {
  StatisticsSnapshot snapshot = statistics_.snapshot();
  const std::lock_guard lock(mutex_);
  snapshot.waiting = queue_.size();
  snapshot.running = running_;
  return snapshot;
}

std::int64_t ServedModel::memory_bytes() const {
  return session_.memory().total_bytes();
}

std::int64_t ServedModel::device_memory_bytes() const {
  return session_.memory().device.total_bytes();
}

void ServedModel::drain() {
  const std::lock_guard drain_lock(drain_mutex_);
  stop();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return running_ == 0; });  // runs on threads of requests
}

}  // namespace tessera::serve
