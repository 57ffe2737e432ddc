// Describes the files of a language model: GGUF, or safetensors with a config.json beside them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace tessera::report {

struct LanguageFileInfo {
  struct Format {
    std::string name;
    std::int64_t tensors = 0, elements = 0, bytes = 0;
  };
  struct TensorLine {
    std::string name, format;
    std::vector<std::int64_t> shape;  // outermost dimension first
    std::int64_t bytes = 0;
  };

  std::string container;  // "GGUF version 3", "safetensors", "Tessera's package"
  std::string package;    // of a package: how it was made, in words; else ""
  int files = 0;
  std::int64_t bytes = 0;
  std::string architecture, name;  // "" where the file does not say
  std::int64_t parameters = 0;
  std::vector<std::pair<std::string, std::string>> sizes;  // what the file says of the architecture, as text
  std::vector<Format> formats;                             // by bytes, the largest first
  std::string tokenizer;                                   // in words, or "" when there is none
  std::string chat_template;                               // its source, or ""
  std::vector<TensorLine> tensors;                         // in the order of the file
  nlohmann::json metadata;  // everything that the file says, but for long lists, of which it has type and length
};

// Throws Error as io::GgufFile::open and io::SafetensorsFile::open do.
LanguageFileInfo describe_language_file(const std::filesystem::path& path);

// The description for people, of one line a fact. `weights` adds a line per tensor, `metadata` all of the metadata and
// the chat template.
std::string language_file_text(const LanguageFileInfo& info, bool weights, bool metadata);
nlohmann::json language_file_json(const LanguageFileInfo& info, const std::string& title);

}  // namespace tessera::report
