// A model with memory: the requests of one sequence are computed one after the other, and each gets the states that the
// one before it left. Steps of different sequences are batched by the network under it.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "serve/core/models/sequence_steps.h"
#include "serve/core/models/servable.h"

namespace tessera::serve {

// The settings of the network under a model with states: steps are batched by it.
ModelSettings settings_of_network(ModelSettings settings);

class SequenceModel final : public Servable {
 public:
  // At most as many sequences as the rules have slots are computed at a time: others wait in order of their arrival. A
  // sequence without requests for max_sequence_idle_microseconds ends. Throws as SequenceSteps does.
  SequenceModel(std::shared_ptr<Servable> network, const inference::ModelSequenceBatching& rules,
                const std::filesystem::path& folder);
  ~SequenceModel() override;

  const ServableInfo& info() const override { return steps_.seen(); }
  bool submit(const std::shared_ptr<Call>& call) override;
  StatisticsSnapshot statistics() const override;
  Statistics& recorder() override { return network_->recorder(); }
  std::int64_t memory_bytes() const override;
  std::int64_t device_memory_bytes() const override { return network_->device_memory_bytes(); }
  std::optional<JobReport> job() const override { return network_->job(); }
  bool holds(const SequenceId& id) const override;
  std::int64_t open_sequences() const override;
  void refuse_new_sequences() override;
  void end_sequence(const SequenceId& id) override;
  // Sequences end with the requests that wait for them.
  void drain() override;

 private:
  struct Sequence {
    SequenceId id;
    SequenceState state;
    std::deque<std::shared_ptr<Call>> waiting;
    bool has_slot = false, is_running = false, is_fresh = true;
    bool takes_more = true;  // no request said that it is the last
    std::int64_t last_ns = 0;
  };
  using Shared = std::shared_ptr<Sequence>;

  Shared place(const std::shared_ptr<Call>& call);
  void advance(Shared sequence);
  void compute(const Shared& sequence, const std::shared_ptr<Call>& call);
  void finish(const Shared& sequence, const std::shared_ptr<Call>& call, Outcome outcome);
  void end(const Shared& sequence);
  void free_slot(const Shared& sequence);
  Shared next_of_backlog();
  void watch();
  std::vector<std::shared_ptr<Call>> take_lapsed(std::int64_t now_ns);

  std::shared_ptr<Servable> network_;
  const SequenceSteps steps_;
  const std::int64_t idle_ns_, slots_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // The mutex guards all below but the thread.
  std::map<SequenceId, Shared> sequences_;  // those that take more requests
  std::deque<Shared> backlog_;              // those that wait for a slot
  std::int64_t used_slots_ = 0, waiting_ = 0, in_flight_ = 0;
  bool is_closed_ = false, is_draining_ = false, stops_ = false;
  std::thread watcher_;
};

}  // namespace tessera::serve
