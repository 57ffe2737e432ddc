// The parts that each architecture adds to the common configuration, a file for each.
#pragma once

#include <span>

#include "models/language/language_model.h"

namespace tessera::models {

struct LanguageArchitecture {
  std::string_view name;
  // Changes a configuration that has the common values and one layer of defaults for each block.
  void (*adapt)(LanguageConfig& config, const ConfigValues& values, const WeightSource& weights);
};
std::span<const LanguageArchitecture> language_architecture_table();

void adapt_llama(LanguageConfig& config, const ConfigValues& values, const WeightSource& weights);
void adapt_qwen(LanguageConfig& config, const ConfigValues& values, const WeightSource& weights);
void adapt_gemma2(LanguageConfig& config, const ConfigValues& values, const WeightSource& weights);
void adapt_gemma3(LanguageConfig& config, const ConfigValues& values, const WeightSource& weights);
void adapt_phi3(LanguageConfig& config, const ConfigValues& values, const WeightSource& weights);

// A whole number of the configuration from `least` to `most`, or `otherwise` where the configuration does not state it.
// Throws Error(invalid_model) for another one, and for a missing one without `otherwise`.
std::int64_t integer_of(const ConfigValues& values, std::string_view key, std::int64_t least, std::int64_t most,
                        std::optional<std::int64_t> otherwise = std::nullopt);
// A number from `least` to kLargestNumber, with which float32 can still compute.
double number_of(const ConfigValues& values, std::string_view key, double least, double otherwise);
inline constexpr double kSmallestNumber = 1e-30, kLargestNumber = 1e30;
// The window of attention that a configuration states for all of its layers that have one.
std::int64_t window_of(const ConfigValues& values, std::int64_t otherwise);

// The elements of a vector of f32, f16 or bf16; empty where there is none. Throws Error(invalid_model) unless it has
// `count` elements.
std::vector<double> vector_of(const WeightSource& weights, std::string_view name, std::int64_t count);

}  // namespace tessera::models
