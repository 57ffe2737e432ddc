// Explains how far the steps of a language model are from the speed of the memory that its weights lie in, and what
// bounds each kind of layer: a part of the verb explain.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "generate/language_step.h"
#include "report/explain/explain.h"

namespace tessera::apps {

struct GenerationExplainOptions {
  report::ExplainOptions explain;      // its session's threads count; nothing is measured
  generate::LanguageStepOptions step;  // cache type and exactness
  std::int64_t depth = 0;              // tokens before those of the step
  std::int64_t prompt_tokens = 512;
};

// The layers of one operator in a step, together.
struct OperatorSum {
  std::string op;
  std::int64_t count = 0;
  double operations = 0, bytes = 0;
  double seconds = 0;                     // predicted
  cost::Bound bound = cost::Bound::none;  // of most of that time
};

// One step: the prediction of its plan, and what memory alone would take.
struct StepExplanation {
  std::string name;  // "decoding", "prompt"
  std::int64_t rows = 0, depth = 0;
  report::Explanation explanation;
  std::vector<OperatorSum> kinds;  // the slowest first; operators that do nothing are left out
  double bytes = 0;                // read and written by the step
  double memory_seconds = 0;       // bytes by the bandwidth of the device's memory

  double seconds() const { return explanation.devices[0].evaluation.total.seconds; }
  double tokens_per_second() const { return static_cast<double>(rows) / seconds(); }
  // At the speed of memory.
  double most_tokens_per_second() const { return static_cast<double>(rows) / memory_seconds; }
};

struct GenerationExplanation {
  std::string model, architecture;
  std::vector<StepExplanation> steps;  // one row, then the rows of a prompt
};

// Throws Error as LanguageModel::load and report::explain do, and Error(invalid_argument) where depth and prompt do not
// fit into the context that the model was trained for.
GenerationExplanation explain_generation(const std::filesystem::path& path, const std::string& name,
                                         const GenerationExplainOptions& options);

// For a terminal: the step of one row with what memory's speed would allow, the kinds of its layers, and the same for
// the prompt.
std::string generation_text(const GenerationExplanation& explanation);
std::string generation_json(const GenerationExplanation& explanation);

}  // namespace tessera::apps
