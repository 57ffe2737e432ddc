// What a step of a sequence adds to its request: control inputs that tell where it stands in the sequence, and the
// states that the step before it left. See "Stateful Models" in Triton's documentation for the meaning.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "serve/core/models/servable.h"

namespace tessera::serve {

// By the names of the inputs that take them.
using SequenceState = std::map<std::string, Tensor>;

class SequenceSteps {
 public:
  // `rules`: the sequence_batching of the network's configuration. Files of initial states lie in the folder
  // `initial_state` of `folder`. Throws Error(invalid_argument) for controls and states that the network has not or has
  // in another type, and as File does for a file that cannot be read.
  SequenceSteps(const ServableInfo& network, const inference::ModelSequenceBatching& rules,
                const std::filesystem::path& folder);

  // The network as a client sees it: without controls, and without states unless the configuration names them as
  // outputs.
  const ServableInfo& seen() const { return seen_; }

  // States of a sequence that begins: zeros unless a file or the configuration says otherwise.
  const SequenceState& initial() const { return initial_; }
  // The request to the network. Throws Failure(bad_request) for inputs, outputs or rows that a client cannot ask for,
  // and for an id that the control input cannot hold.
  InferenceRequest request_of(const InferenceRequest& asked, const SequenceState& state, bool is_first) const;
  // Takes the states out of the network's answer; what the client asked for stays.
  SequenceState take_state(const InferenceRequest& asked, InferenceResponse& answer) const;

 private:
  struct Control {
    std::string input;
    inference::ModelSequenceBatching::Control::Kind kind;
    DType dtype = DType::undefined;
    Shape shape;  // with the batch, of one element
    double off = 0, on = 1;
  };
  struct State {
    std::string input, output;
  };

  void add_control(const ServableInfo& network, const inference::ModelSequenceBatching::ControlInput& control);
  void add_state(const ServableInfo& network, const inference::ModelSequenceBatching::State& state,
                 const std::filesystem::path& folder);
  Tensor value_of(const Control& control, const SequencePart& part, bool is_first) const;

  bool batched_ = false;
  std::vector<Control> controls_;
  std::vector<State> states_;
  SequenceState initial_;
  ServableInfo seen_;
};

}  // namespace tessera::serve
