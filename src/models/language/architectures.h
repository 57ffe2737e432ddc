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

// The elements of a vector of f32, f16 or bf16; empty where there is none. Throws Error(invalid_model) unless it has
// `count` elements.
std::vector<double> vector_of(const WeightSource& weights, std::string_view name, std::int64_t count);

}  // namespace tessera::models
