// Configuration and weights of a language model from its files, as the builder of its graph wants them.
#pragma once

#include <filesystem>
#include <memory>

#include "io/gguf/gguf_file.h"
#include "models/language/language_model.h"

namespace tessera::generate {

// Both interfaces over one model; keeps its files mapped.
struct LanguageSource {
  std::unique_ptr<const models::ConfigValues> values;
  std::unique_ptr<const models::WeightSource> weights;
};

// Weights are views of the mapped file.
LanguageSource source_of_gguf(const io::GgufFile& file);

}  // namespace tessera::generate
