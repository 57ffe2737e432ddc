// A model with steps of its own: a picture or a text goes in, names, vectors or texts come out.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "serve/core/models/servable.h"
#include "serve/core/steps/step.h"
#include "tessera/share.h"

namespace tessera::serve {

class Pipeline final : public Servable {
 public:
  // One of the steps may be null. What `network` does not get from the step before it, it gets from the client; its
  // settings become those of the whole. Throws Error(invalid_argument) where an input or output stays without a value.
  Pipeline(Arbiter& arbiter, std::unique_ptr<PipelineStep> before, std::shared_ptr<Servable> network,
           std::unique_ptr<PipelineStep> after);
  ~Pipeline() override;

  const ServableInfo& info() const override { return info_; }
  bool submit(const std::shared_ptr<Call>& call) override;
  // Requests are counted here, runs by the network.
  StatisticsSnapshot statistics() const override;
  void reset_statistics() override {
    statistics_.reset();
    network_->reset_statistics();
  }
  Statistics& recorder() override { return statistics_; }
  std::int64_t memory_bytes() const override { return network_->memory_bytes(); }
  std::int64_t device_memory_bytes() const override { return network_->device_memory_bytes(); }
  std::optional<JobReport> job() const override { return network_->job(); }
  void drain() override;

 private:
  // One request on its way.
  struct Progress {
    std::shared_ptr<Call> call;
    NamedValues values;
    std::int64_t started_ns = 0, network_ns = 0, answered_ns = 0;  // when the steps and the network began and ended
    bool draws_random_numbers = false;                             // the network did
  };
  using Work = std::function<void()>;

  void check(const Call& call) const;
  void work();
  void stop();
  void begin(const std::shared_ptr<Progress>& progress);
  void ask_network(const std::shared_ptr<Progress>& progress);
  void end(const std::shared_ptr<Progress>& progress);
  void finish(Progress& progress, Outcome outcome);

  ServableInfo info_;
  std::unique_ptr<PipelineStep> before_, after_;
  std::shared_ptr<Servable> network_;
  Job job_;
  Statistics statistics_;

  mutable std::mutex mutex_;
  std::condition_variable changed_, idle_;
  // With the mutex held. Work that is nearly done goes first.
  std::deque<Work> ends_, begins_;
  std::int64_t in_flight_ = 0;
  bool draining_ = false, stops_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace tessera::serve
