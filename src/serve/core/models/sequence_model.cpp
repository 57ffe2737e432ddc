#include "serve/core/models/sequence_model.h"

#include <algorithm>

#include "serve/core/operations/log.h"

namespace tessera::serve {
namespace {

constexpr std::int64_t kUsualIdle_us = 1'000'000;  // as Triton's
constexpr std::int64_t kUsualCandidates = 1024;
constexpr std::chrono::milliseconds kLook{20};  // at sequences that wait for a slot

std::int64_t idle_ns(const inference::ModelSequenceBatching& rules) {
  const auto given = static_cast<std::int64_t>(rules.max_sequence_idle_microseconds());
  return (given > 0 ? given : kUsualIdle_us) * 1000;
}

std::int64_t slots(const inference::ModelSequenceBatching& rules, const ModelSettings& settings) {
  if (rules.has_oldest())
    return rules.oldest().max_candidate_sequences() > 0 ? rules.oldest().max_candidate_sequences() : kUsualCandidates;
  return std::max<std::int64_t>(settings.config.max_batch_size(), 1) * settings.instances();
}

bool is_lapsed(const Call& call, std::int64_t now_ns) {
  return call.cancellation.flag().load(std::memory_order_relaxed) ||
         (call.request.timeout_ns > 0 && call.arrival_ns + call.request.timeout_ns <= now_ns);
}

}  // namespace

ModelSettings settings_of_network(ModelSettings settings) {
  for (const inference::ModelOutput& output : settings.config.output()) settings.shown_outputs.insert(output.name());
  const inference::ModelSequenceBatching rules = settings.config.sequence_batching();
  inference::ModelDynamicBatching& batching = *settings.config.mutable_dynamic_batching();
  batching.set_max_queue_delay_microseconds(rules.has_oldest() ? rules.oldest().max_queue_delay_microseconds()
                                                               : rules.direct().max_queue_delay_microseconds());
  for (const std::int32_t size : rules.oldest().preferred_batch_size()) batching.add_preferred_batch_size(size);
  return settings;
}

SequenceModel::SequenceModel(std::shared_ptr<Servable> network, const inference::ModelSequenceBatching& rules,
                             const std::filesystem::path& folder)
    : network_(std::move(network)),
      steps_(network_->info(), rules, folder),
      idle_ns_(idle_ns(rules)),
      slots_(slots(rules, network_->info().settings)) {
  watcher_ = std::thread([this] { watch(); });
}

SequenceModel::~SequenceModel() {
  drain();
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  watcher_.join();
}

// The sequence that the request belongs to, where it waits; null for a version that takes no more. With the mutex held.
SequenceModel::Shared SequenceModel::place(const std::shared_ptr<Call>& call) {
  const SequencePart& part = call->request.sequence;
  const auto found = sequences_.find(part.id);
  if (is_draining_ || (is_closed_ && (part.is_start || found == sequences_.end()))) return nullptr;
  if (waiting_ >= info().settings.queue_limit())
    throw Failure(Reason::unavailable, fmt::format("the queue of model '{}' is full", info().name), 0.5);
  Shared sequence;
  if (found != sequences_.end() && !part.is_start) sequence = found->second;
  if (!sequence) {
    if (!part.is_start)
      throw Failure(Reason::bad_request,
                    fmt::format("a request of a sequence that model '{}' does not know must have sequence_start: the "
                                "sequence is new, has ended or was idle too long",
                                info().name));
    if (found != sequences_.end()) end(Shared(found->second));
    sequence = std::make_shared<Sequence>();
    sequence->id = part.id;
    sequence->state = steps_.initial();
    sequence->last_ns = now_ns();
    if (used_slots_ < slots_ && backlog_.empty()) {
      sequence->has_slot = true;
      ++used_slots_;
    } else {
      backlog_.push_back(sequence);
      changed_.notify_all();  // its deadline is watched
    }
    sequences_.insert_or_assign(part.id, sequence);
  }
  sequence->waiting.push_back(call);
  ++waiting_;
  ++in_flight_;
  if (part.is_end) end(sequence);
  return sequence;
}

// No more requests come; it goes when those that wait are answered. With the mutex held.
void SequenceModel::end(const Shared& sequence) {
  if (!sequence->takes_more) return;
  sequence->takes_more = false;
  sequences_.erase(sequence->id);
  if (sequence->waiting.empty() && !sequence->is_running) free_slot(sequence);
}

// The caller holds the mutex, and sees to the backlog after it has freed slots.
void SequenceModel::free_slot(const Shared& sequence) {
  if (!std::exchange(sequence->has_slot, false)) return;
  --used_slots_;
  changed_.notify_all();
}

// The next sequence of the backlog, or null if there is none or no free slot. The caller holds the mutex.
SequenceModel::Shared SequenceModel::next_of_backlog() {
  while (used_slots_ < slots_ && !backlog_.empty()) {
    Shared next = std::move(backlog_.front());
    backlog_.pop_front();
    if (next->waiting.empty() && !next->takes_more) continue;  // all its requests lapsed
    next->has_slot = true;
    ++used_slots_;
    return next;
  }
  return nullptr;
}

bool SequenceModel::submit(const std::shared_ptr<Call>& call) {
  Shared sequence;
  try {
    if (call->request.sequence.id.is_none())
      throw Failure(Reason::bad_request,
                    fmt::format("model '{}' keeps states: its requests need a sequence_id that is neither 0 nor empty",
                                info().name));
    steps_.request_of(call->request, {}, true);  // what is wrong is said at once, and begins no sequence
    const std::lock_guard lock(mutex_);
    sequence = place(call);
  } catch (...) {
    const Failure failure = current_failure();
    recorder().failed(now_ns() - call->arrival_ns, failure.reason());
    throw failure;
  }
  if (!sequence) return false;
  advance(std::move(sequence));
  return true;
}

// Starts the next step of a sequence that has a slot and no step in progress, then of those that get a slot.
void SequenceModel::advance(Shared sequence) {
  while (sequence) {
    std::shared_ptr<Call> call;
    {
      const std::lock_guard lock(mutex_);
      if (sequence->has_slot && !sequence->is_running) {
        if (!sequence->waiting.empty()) {
          call = std::move(sequence->waiting.front());
          sequence->waiting.pop_front();
          --waiting_;
          sequence->is_running = true;
        } else if (!sequence->takes_more) {
          free_slot(sequence);
        }
      }
      if (!call) sequence = next_of_backlog();
    }
    if (call) compute(sequence, call);
  }
}

// The step's end goes on with the sequence, unless it came before this returned: then the caller does.
void SequenceModel::compute(const Shared& sequence, const std::shared_ptr<Call>& call) {
  auto step = std::make_shared<Call>();
  step->arrival_ns = call->arrival_ns;
  step->trace = call->trace;
  step->times = call->times;
  try {
    if (call->cancellation.flag().load(std::memory_order_relaxed))
      throw Failure(Reason::cancelled, "the request was cancelled");
    step->request = steps_.request_of(call->request, sequence->state, sequence->is_fresh);
    // The client's cancellation is looked at before the step alone: a step that has begun keeps the states whole.
    step->done = [this, sequence, call](Outcome outcome) {
      finish(sequence, call, std::move(outcome));
      advance(sequence);
    };
    if (!network_->submit(step)) throw Failure(Reason::unavailable, "the model is being exchanged", 0.1);
  } catch (...) {
    finish(sequence, call, {current_failure(), {}});
  }
}

void SequenceModel::finish(const Shared& sequence, const std::shared_ptr<Call>& call, Outcome outcome) {
  if (!outcome.failure) {
    sequence->state = steps_.take_state(call->request, outcome.response);
    sequence->is_fresh = false;
  }
  call->done(std::move(outcome));
  const std::lock_guard lock(mutex_);
  sequence->is_running = false;
  sequence->last_ns = now_ns();
  if (--in_flight_ == 0) changed_.notify_all();
}

StatisticsSnapshot SequenceModel::statistics() const {
  StatisticsSnapshot snapshot = network_->statistics();
  const std::lock_guard lock(mutex_);
  snapshot.waiting += waiting_;
  return snapshot;
}

std::int64_t SequenceModel::memory_bytes() const {
  std::int64_t one = 0;
  for (const auto& [name, tensor] : steps_.initial()) one += tensor.bytes();
  const std::int64_t network = network_->memory_bytes();
  const std::lock_guard lock(mutex_);
  return network + one * static_cast<std::int64_t>(sequences_.size());
}

bool SequenceModel::holds(const SequenceId& id) const {
  const std::lock_guard lock(mutex_);
  return !is_draining_ && sequences_.contains(id);
}

std::int64_t SequenceModel::open_sequences() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(sequences_.size()) + in_flight_;
}

void SequenceModel::refuse_new_sequences() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
}

void SequenceModel::end_sequence(const SequenceId& id) {
  const std::lock_guard lock(mutex_);
  if (const auto found = sequences_.find(id); found != sequences_.end()) end(Shared(found->second));
}

// Requests whose sender has gone or whose deadline has passed, of sequences that wait for a slot. With the mutex held.
std::vector<std::shared_ptr<Call>> SequenceModel::take_lapsed(std::int64_t now_ns) {
  std::vector<std::shared_ptr<Call>> lapsed;
  for (const Shared& sequence : backlog_) {
    auto& waiting = sequence->waiting;
    const auto split = std::stable_partition(waiting.begin(), waiting.end(),
                                             [&](const auto& call) { return !is_lapsed(*call, now_ns); });
    lapsed.insert(lapsed.end(), split, waiting.end());
    waiting.erase(split, waiting.end());
    if (waiting.empty()) end(sequence);
  }
  waiting_ -= static_cast<std::int64_t>(lapsed.size());
  std::erase_if(backlog_, [](const Shared& sequence) { return sequence->waiting.empty(); });
  return lapsed;
}

// Ends sequences that are idle, and refuses what has waited too long for a slot.
void SequenceModel::watch() {
  std::unique_lock lock(mutex_);
  while (!stops_) {
    const std::int64_t now = now_ns();
    std::int64_t next_ns = now + idle_ns_;
    std::vector<Shared> idle;
    for (const auto& [id, sequence] : sequences_) {
      if (sequence->is_running || !sequence->waiting.empty()) continue;
      if (is_draining_ || sequence->last_ns + idle_ns_ <= now) idle.push_back(sequence);
      else next_ns = std::min(next_ns, sequence->last_ns + idle_ns_);
    }
    for (const Shared& sequence : idle) end(sequence);
    const std::vector<std::shared_ptr<Call>> lapsed = take_lapsed(now);
    const Shared next = next_of_backlog();
    if (!lapsed.empty() || next) {
      lock.unlock();
      for (const std::shared_ptr<Call>& call : lapsed) {
        const bool is_cancelled = call->cancellation.flag().load(std::memory_order_relaxed);
        const Failure failure = is_cancelled ? Failure(Reason::cancelled, "the request was cancelled")
                                             : Failure(Reason::deadline_exceeded,
                                                       "the deadline passed while the sequence waited for a slot");
        recorder().failed(now_ns() - call->arrival_ns, failure.reason());
        call->done({failure, {}});
      }
      if (next) advance(next);
      lock.lock();
      in_flight_ -= static_cast<std::int64_t>(lapsed.size());
      if (in_flight_ == 0) changed_.notify_all();
      continue;
    }
    if (!backlog_.empty() || (is_draining_ && in_flight_ > 0)) changed_.wait_for(lock, kLook);
    else changed_.wait_for(lock, std::chrono::nanoseconds(next_ns - now));
  }
}

void SequenceModel::drain() {
  {
    std::unique_lock lock(mutex_);
    is_draining_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return in_flight_ == 0; });
  }
  network_->drain();
}

}  // namespace tessera::serve
