// The texts beside the weights of a folder with safetensors files: its JSON files and its chat template. A package of
// such a model holds them too.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "io/package/language_package.h"
#include "tessera/tokenizer.h"

namespace tessera::generate {

class FolderTexts {
 public:
  static constexpr std::int64_t kMostBytes = std::int64_t{64} << 20;
  // The names of all texts that a model may have.
  static std::span<const std::string_view> names();

  explicit FolderTexts(std::filesystem::path folder) : folder_(std::move(folder)) {}
  explicit FolderTexts(const io::LanguagePackage& package);

  bool has(std::string_view name) const;
  // Throws Error: not_found, io, over_budget, invalid_model.
  std::string read(std::string_view name) const;
  // The object of a JSON file. Throws Error(invalid_model) where it is none.
  nlohmann::json object(std::string_view name) const;
  // That of tokenizer.json. Throws as Tokenizer::load does.
  Tokenizer tokenizer() const;
  // The file for messages: its path, or its name in a package.
  std::string where(std::string_view name) const;

 private:
  std::filesystem::path folder_;
  std::shared_ptr<const io::LanguagePackage> package_;  // null: files
};

}  // namespace tessera::generate
