// Phi-3: joint projections, which follow from the weights that the file has, and one window where it states one.
#include "models/language/architectures.h"

namespace tessera::models {

void adapt_phi3(LanguageConfig& config, const ConfigValues& values, const WeightSource&) {
  const std::int64_t window = window_of(values, 0);
  for (LanguageLayer& layer : config.layers) layer.window = window;
}

}  // namespace tessera::models
