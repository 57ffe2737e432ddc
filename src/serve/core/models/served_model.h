// One version of a model that answers requests: a session, a job of the arbiter, a queue, and threads that take
// batches from it.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "serve/core/config/tensor_reshape.h"
#include "serve/core/models/servable.h"
#include "serve/core/operations/timeline.h"
#include "serve/core/requests/batch.h"
#include "serve/core/requests/request_queue.h"
#include "serve/core/requests/run_times.h"
#include "serve/core/requests/staging.h"
#include "tessera/share.h"

namespace tessera::serve {

// Labels of an output's elements, by the output's name.
using Labels = std::map<std::string, std::vector<std::string>>;

class ServedModel final : public Servable {
 public:
  // Runs the model once for each of the usual batch sizes, so that the first request finds plans and the arbiter knows
  // how long runs take; models whose inputs have other open dimensions are not run. Throws Error as Session does, and
  // invalid_argument for settings that contradict the model.
  // Its runs go into the timeline, where there is one.
  ServedModel(Arbiter& arbiter, const Model& model, const std::string& version, ModelSettings settings, Labels labels,
              RunTimeline* timeline = nullptr);
  ~ServedModel() override;

  const ServableInfo& info() const override { return info_; }
  bool submit(const std::shared_ptr<Call>& call) override;
  StatisticsSnapshot statistics() const override;
  Statistics& recorder() override { return statistics_; }
  std::int64_t memory_bytes() const override;
  std::int64_t device_memory_bytes() const override;
  std::optional<JobReport> job() const override { return job_.report(); }
  void drain() override;

 private:
  using Batch = std::vector<QueuedCall>;

  QueuedCall check(const std::shared_ptr<Call>& call) const;
  void admit(Call& call, QueuedCall& queued, std::uint64_t priority);
  bool can_run_here(const QueuedCall& queued) const;
  void stage(QueuedCall& queued, std::unique_lock<std::mutex>& lock);
  void run_here(QueuedCall queued, std::unique_lock<std::mutex> lock);
  std::int64_t predicted_alone_ns(const QueuedCall& queued) const;
  NamedValues run_session(const Batch& batch, const NamedValues& inputs, std::int64_t rows);
  Tensor for_model(const std::string& input, const Tensor& tensor) const;
  NamedValues zeros(std::int64_t rows) const;
  void warm_up();
  void work();
  void stop();
  void run(Batch batch, Gatherer& gatherer);
  void answer(const QueuedCall& queued, const NamedValues& results, std::int64_t rows, std::int64_t first,
              std::int64_t started_ns, ExecutionTimes times);
  void refuse(const QueuedCall& queued, const Failure& failure);
  bool is_trial(const Call& call, std::int64_t now_ns) const;

  ServableInfo info_;
  Labels labels_;
  bool batched_ = false;
  const std::map<std::string, TensorReshape> input_reshapes_, output_reshapes_;
  Session session_;
  Job job_;
  Statistics statistics_;
  RunTimeline* timeline_;
  const std::size_t timeline_number_;
  const BatchingRule rule_;
  const std::int64_t most_rows_;  // of a batch

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // With the mutex held.
  RequestQueue queue_;
  StagingPool staging_;
  bool draining_ = false;
  std::int64_t running_until_ns_ = 0, running_ = 0;
  RunTimes times_;

  std::mutex drain_mutex_;
  std::vector<std::thread> workers_;
};

}  // namespace tessera::serve
