// A graph of models that is served as one: each step's inputs are inputs of the ensemble or outputs of earlier steps.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "serve/core/models/servable.h"
#include "serve/core/models/served_model.h"

namespace tessera::serve {

class Ensemble final : public Servable {
 public:
  // Sends a call to the model that it names; throws Failure as Servable::submit does.
  using Submit = std::function<void(const std::shared_ptr<Call>&)>;

  // With a max_batch_size, requests have rows, which all steps get together; the models batch those of several
  // requests. Throws Error(invalid_argument) for steps that need what nobody makes, that depend on each other in a
  // circle, or outputs that no step makes. Labels are of outputs of TYPE_STRING whose step gives numbers: they become
  // the largest elements with their labels.
  Ensemble(const std::string& version, ModelSettings settings, Labels labels, Submit submit);
  ~Ensemble() override;

  const ServableInfo& info() const override { return info_; }
  bool submit(const std::shared_ptr<Call>& call) override;
  StatisticsSnapshot statistics() const override;
  Statistics& recorder() override { return statistics_; }
  void drain() override;

 private:
  using Step = inference::ModelEnsembling::Step;
  struct Progress;

  void order_steps();
  void take_inputs(Progress& progress) const;
  void next_step(const std::shared_ptr<Progress>& progress);
  void take_outputs(Progress& progress, const Step& step, InferenceResponse response) const;
  InferenceResponse collect(Progress& progress) const;
  void finish(Progress& progress, Outcome outcome);

  ServableInfo info_;
  Labels labels_;
  Submit submit_;
  std::vector<Step> steps_;  // each behind those whose outputs it takes
  Statistics statistics_;

  mutable std::mutex mutex_;
  std::condition_variable idle_;
  bool draining_ = false;
  std::int64_t running_ = 0;
};

}  // namespace tessera::serve
