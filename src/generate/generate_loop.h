// The loop that generates answers: prompts in chunks, then a token per answer and step, for all answers at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "generate/kept_sequence.h"
#include "generate/model_step.h"
#include "tessera/generate.h"
#include "tessera/tokenizer.h"

namespace tessera::generate {

// Continues the prompts. In each step all answers that are under way get a row, and the rest of the rows, up to
// `chunk`, go to prompts in their order. `end_tokens` are those after which an answer is over, ascending. All sequences
// are closed at the end, also when a step throws. Throws as Answer and ModelStep::run do; a cancellation ends the
// answers and throws nothing. With `kept` there is one prompt; what it begins with in the kept sequence is not
// computed.
std::vector<GeneratedAnswer> generate_answers(ModelStep& step, const Tokenizer& tokenizer,
                                              std::span<const std::int64_t> end_tokens,
                                              std::span<const std::vector<std::int64_t>> prompts, std::int64_t chunk,
                                              const GenerateOptions& options, GenerationStats* stats,
                                              KeptSequence* kept = nullptr);

}  // namespace tessera::generate
