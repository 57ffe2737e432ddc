// Llama and its like (Mistral, SmolLM2): one window for all layers where the file states one.
#include "models/language/architectures.h"

namespace tessera::models {

void adapt_llama(LanguageConfig& config, const ConfigValues& values, const WeightSource&) {
  config.turns_neighbours = values.turns_neighbours();
  const std::int64_t window = window_of(values, 0);
  for (LanguageLayer& layer : config.layers) layer.window = window;
}

}  // namespace tessera::models
