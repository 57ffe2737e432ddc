// Llama and its like (Mistral, SmolLM2): divisors of the frequencies where the file has them (Llama 3), and one window
// for all layers where it states one.
#include "models/language/architectures.h"

namespace tessera::models {

void adapt_llama(LanguageConfig& config, const ConfigValues& values, const WeightSource& weights) {
  config.turns_neighbours = values.turns_neighbours();
  config.rotary[0].divisors = vector_of(weights, "rope_freqs.weight", config.rotated / 2);
  const std::int64_t window = window_of(values, 0);
  for (LanguageLayer& layer : config.layers) layer.window = window;
}

}  // namespace tessera::models
