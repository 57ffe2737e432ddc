// Configuration and weights of a language model from its files, as the builder of its graph wants them.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "generate/folder_texts.h"
#include "io/gguf/gguf_file.h"
#include "io/package/language_package.h"
#include "models/language/language_model.h"

namespace tessera::generate {

// Both interfaces over one model; keeps its files mapped.
struct LanguageSource {
  std::unique_ptr<const models::ConfigValues> values;
  std::unique_ptr<const models::WeightSource> weights;
  std::shared_ptr<const io::PackageOrigin>
      package;  // that the weights are from, packed ones too; null: from no package
};

// The files that a path leads to: an open GGUF file, an open package, or a folder with safetensors files.
struct LanguageFiles {
  std::optional<io::GgufFile> gguf;
  std::optional<io::LanguagePackage> package;
  std::filesystem::path folder;
};
// Throws Error as GgufFile::open and open_language_package do, and invalid_argument for what is no language model.
LanguageFiles open_language_files(const std::filesystem::path& path);

LanguageSource source_of(const LanguageFiles& files);
// Weights are views of the mapped file.
LanguageSource source_of_gguf(const io::GgufFile& file);
// From config.json and the safetensors files of a folder, under the names of GGUF files. Throws Error: invalid_model
// for JSON of another form than expected, unsupported for parts of a configuration that the builder does not know.
LanguageSource source_of_folder(const std::filesystem::path& folder);

// Weights are views of the mapped package, read and checked when they are asked for.
LanguageSource source_of_package(const io::LanguagePackage& package);

// The configurations behind the functions above.
std::unique_ptr<const models::ConfigValues> values_of_gguf(const io::GgufFile& file);
std::unique_ptr<const models::ConfigValues> values_of_folder(const FolderTexts& texts);
// The metadata of a package that was made of a GGUF file. Throws Error(invalid_model).
io::GgufFile metadata_of_package(const io::LanguagePackage& package);

}  // namespace tessera::generate
