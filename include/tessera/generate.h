// Generates text with language models, read from GGUF or safetensors files as they are shipped.
//
//   LanguageModel model = LanguageModel::load("SmolLM2-135M-Instruct.Q4_1.gguf");
//   GenerateOptions options;
//   options.on_text = [](std::string_view text) { std::cout << text << std::flush; return true; };
//   model.generate("The capital of France is", options);
//
// A token's logits are the same bits whatever runs beside them: other sequences, chunks of the prompt, threads.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// How the next token is drawn from the model's logits. The parts are applied in the order in which they stand here.
// The defaults suit small models; temperature 0 always takes the most probable token.
struct SamplingOptions {
  std::map<std::int64_t, float> logit_bias;  // token → what is added to its logit
  // Logits of the tokens in the last `repetition_window` tokens of prompt and answer are divided by this where they are
  // positive, else multiplied; 1: off. A negative window means all tokens.
  double repetition_penalty = 1;
  std::int64_t repetition_window = 64;
  // Subtracted from the logit of a token that is in the answer already: once, and per occurrence; 0: off.
  double presence_penalty = 0;
  double frequency_penalty = 0;
  double temperature = 0.8;  // 0: the most probable token, of several the one with the lowest number
  std::int64_t top_k = 40;   // only so many of the most probable tokens; 0: all
  // Only the tokens whose information is closest to the distribution's entropy, until they have this probability
  // together ("Locally Typical Sampling", arXiv:2202.00666); 1: all.
  double typical_p = 1;
  double top_p = 0.95;  // only the most probable tokens, until they have this probability together; 1: all
  double min_p = 0.05;  // only tokens with at least this share of the most probable one's probability; 0: all
  // Mirostat 2 (arXiv:2007.14966) in place of top_k, typical_p, top_p and min_p: keeps the surprise of the tokens, in
  // bits, near tau.
  bool mirostat = false;
  double mirostat_tau = 5;
  double mirostat_eta = 0.1;  // how fast it adapts
  // A token is drawn by (seed, choice, its position in the answer) alone, so that a seed repeats an answer whatever
  // runs beside it. `choice` tells several answers to one prompt apart.
  std::uint64_t seed = 1;
  std::uint64_t choice = 0;
};

// The natural logarithm of a token's probability, from the model's own logits: before bias, penalties and temperature.
struct TokenLogprob {
  std::int64_t token = 0;
  double logprob = 0;
};

}  // namespace tessera
