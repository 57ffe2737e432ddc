// Configuration and weights of a language model from its files, as the builder of its graph wants them.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "io/gguf/gguf_file.h"
#include "models/language/language_model.h"

namespace tessera::generate {

// Both interfaces over one model; keeps its files mapped.
struct LanguageSource {
  std::unique_ptr<const models::ConfigValues> values;
  std::unique_ptr<const models::WeightSource> weights;
};

// The files that a path leads to: an open GGUF file, or a folder with safetensors files.
struct LanguageFiles {
  std::optional<io::GgufFile> gguf;
  std::filesystem::path folder;
};
// Throws Error as GgufFile::open does, and invalid_argument for what is no language model.
LanguageFiles open_language_files(const std::filesystem::path& path);

LanguageSource source_of(const LanguageFiles& files);
// Weights are views of the mapped file.
LanguageSource source_of_gguf(const io::GgufFile& file);
// From config.json and the safetensors files of a folder, under the names of GGUF files. Throws Error: invalid_model
// for JSON of another form than expected, unsupported for parts of a configuration that the builder does not know.
LanguageSource source_of_folder(const std::filesystem::path& folder);

}  // namespace tessera::generate
