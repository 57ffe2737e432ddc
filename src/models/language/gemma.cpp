// Gemma 2 and Gemma 3: scaled embeddings, norms behind each block too, tanh GELU, soft caps (Gemma 2), and layers that
// see a window only.
#include <cmath>

#include "models/language/architectures.h"

namespace tessera::models {
namespace {

void adapt_common(LanguageConfig& config, const ConfigValues& values, std::int64_t large_layers) {
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden));
  config.activation = FeedForwardActivation::gelu_tanh;
  // The largest model of each generation scales by the hidden size per head, the others by the size of a head; a
  // configuration file says which.
  const bool is_large = static_cast<std::int64_t>(config.layers.size()) == large_layers;
  const double size = number_of(values, "attention.query_pre_attn_scalar", kSmallestNumber,
                                static_cast<double>(is_large ? config.hidden / config.heads : config.head_size));
  config.query_scale = 1 / std::sqrt(size);
}

}  // namespace

void adapt_gemma2(LanguageConfig& config, const ConfigValues& values, const WeightSource&) {
  constexpr std::int64_t kLargeLayers = 46, kUsualWindow = 4096;
  adapt_common(config, values, kLargeLayers);
  config.score_softcap = number_of(values, "attn_logit_softcapping", 0, 50);
  config.logit_softcap = number_of(values, "final_logit_softcapping", 0, 30);
  const std::int64_t window = window_of(values, kUsualWindow);
  for (std::size_t i = 0; i < config.layers.size(); i += 2) config.layers[i].window = window;
}

void adapt_gemma3(LanguageConfig& config, const ConfigValues& values, const WeightSource&) {
  constexpr std::int64_t kLargeLayers = 62, kUsualWindow = 1024, kUsualPattern = 6;
  adapt_common(config, values, kLargeLayers);
  config.logit_softcap = number_of(values, "final_logit_softcapping", 0, 0);
  const std::int64_t window = window_of(values, kUsualWindow);
  const std::int64_t pattern = integer_of(values, "attention.sliding_window_pattern", 1, kMostLayers, kUsualPattern);
  RotaryTable local;
  local.base = number_of(values, "rope.local.freq_base", kSmallestNumber, 10000);
  config.rotary.push_back(local);
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    if ((static_cast<std::int64_t>(i) + 1) % pattern == 0) continue;
    config.layers[i] = {window, 1};
  }
}

}  // namespace tessera::models
