// Phi-3: joint projections, and divisors of the frequencies for long and for short contexts ("LongRoPE",
// arXiv:2402.13753).
#include <cmath>

#include "models/language/architectures.h"

namespace tessera::models {

void adapt_phi3(LanguageConfig& config, const ConfigValues& values, const WeightSource& weights) {
  const std::int64_t trained = values.integer("context_length").value_or(config.context);
  const std::int64_t original = values.integer("rope.scaling.original_context_length").value_or(trained);
  RotaryTable& rotary = config.rotary[0];
  rotary.divisors =
      vector_of(weights, config.context > original ? "rope_factors_long.weight" : "rope_factors_short.weight",
                config.rotated / 2);
  if (!rotary.divisors.empty() && trained > original && original > 1)
    rotary.magnitude = number_of(values, "rope.scaling.attn_factor", kSmallestNumber,
                                 std::sqrt(1 + std::log(static_cast<double>(trained) / static_cast<double>(original)) /
                                                   std::log(static_cast<double>(original))));
  const std::int64_t window = window_of(values, 0);
  for (LanguageLayer& layer : config.layers) layer.window = window;
}

}  // namespace tessera::models
