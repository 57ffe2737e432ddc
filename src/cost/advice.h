// Advice on what would make a model faster, each a sentence that a person can act on, with its predicted gain.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/evaluation.h"

namespace tessera::cost {

enum class AdviceKind : std::uint8_t { batch, padding, fusion, precision, upgrade, sharing };
std::string_view name_of(AdviceKind kind);

struct Advice {
  AdviceKind kind = AdviceKind::batch;
  std::string text;
  double gain = 0;  // predicted: share of the time (per sample, where the batch changes) that it saves; 0: none
  std::vector<std::string> layers;  // names of those that it is about, largest gain first
};

struct Situation {
  const Evaluation* now = nullptr;
  const ir::Graph* graph = nullptr;  // that the works come from
  std::int64_t batch = 1;            // what the present batch is called
  bool training = false;
  // Evaluates the model on another device or in another precision.
  std::function<Evaluation(const DeviceProfile&, Precision)> elsewhere;
  std::vector<DeviceProfile> candidates;  // devices to compare with
};

// All that applies, largest gain first; what would not help is said too (gain 0), where a person would ask.
std::vector<Advice> advise(const Situation& situation);

// A name for people: the node's, or its operator's.
std::string layer_name(const Work& work);

}  // namespace tessera::cost
