// Runs a model step by step for one request: each step gets outputs of the step before it as inputs, and gives an
// answer of its own.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "serve/core/models/servable.h"
#include "serve/core/requests/answer_sink.h"
#include "serve/protocol/generate_request.h"

namespace tessera::serve {

// The table [generate] of a model's configuration. Without feeds a request is one step.
struct GenerationRules {
  std::map<std::string, std::string> feeds;  // inputs, and the outputs of the step before that they get
  std::map<std::string, std::string> stops;  // outputs whose only element ends the generation when it has this value
  std::int64_t most_steps = 1;               // that answer, those of the prompt but the last one not counted
};

// Throws Error(invalid_argument) for settings that are unknown or do not fit the model's inputs and outputs.
GenerationRules generation_rules(const ServableInfo& info);
// The inputs that a request to the model may have.
std::vector<GenerateField> generate_fields(const ServableInfo& info, const GenerationRules& rules);

// Keeps itself alive until the sink's end(). Thread-safe.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  struct Actions {
    std::function<void(const std::shared_ptr<Call>&)> submit;       // throws Failure
    std::function<void(const InferenceRequest&)> end_sequence;      // of the request's sequence
    std::function<void(const std::optional<Failure>&)> before_end;  // called just before the sink's end()
  };

  // `call` is the request as its sender sees it: its arrival, trace and times are those of all steps.
  Generation(GenerateRequest request, GenerationRules rules, const ServableInfo& info, std::shared_ptr<Call> call,
             std::shared_ptr<AnswerSink> sink, Actions actions);

  // Throws Failure(bad_request) for prompts of different lengths and too many steps. The sink is not called then.
  void start();
  // The step in progress is cancelled, and no other one begins.
  void cancel();

 private:
  void go_on();
  void submit_step();
  InferenceRequest next_request();
  void finish_step(Outcome outcome);
  void keep_feedback(const InferenceResponse& response);
  bool is_stopped_by(const InferenceResponse& response) const;
  void end(std::optional<Failure> failure);

  GenerateRequest request_;
  const GenerationRules rules_;
  const std::vector<TensorInfo> inputs_;
  const bool has_states_;
  bool owns_sequence_ = false;  // begins and ends with this generation
  const std::shared_ptr<Call> call_;
  const std::shared_ptr<AnswerSink> sink_;
  const Actions actions_;

  // Used by one thread at a time, as steps follow each other.
  std::int64_t prompt_steps_ = 1, done_steps_ = 0, most_steps_ = 1;
  std::map<std::string, Tensor> feedback_;  // by input
  bool is_open_ = false;                    // a step has begun the sequence and none has ended it

  std::atomic<int> pending_{0};  // steps to submit
  std::mutex mutex_;             // guards the members below
  std::shared_ptr<Call> step_;
  bool is_cancelled_ = false;
};

}  // namespace tessera::serve
