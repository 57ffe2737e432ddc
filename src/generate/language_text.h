// The text side of a language model's files: its tokenizer, the tokens that end an answer, and its chat template.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "generate/folder_texts.h"
#include "generate/language_source.h"
#include "io/gguf/gguf_file.h"
#include "tessera/tokenizer.h"

namespace tessera::generate {

struct LanguageText {
  Tokenizer tokenizer;
  std::vector<std::int64_t> end_tokens;  // after which an answer is over, ascending
  std::string chat_template;             // its source, or "" when there is none
  std::string bos_text, eos_text;        // the tokens that begin and end a text, as templates write them; or ""
};

// The parts of the tokenizer in a GGUF file. Throws Error(invalid_model) for values of other types than expected, and
// for a file without a tokenizer.
TokenizerParts tokenizer_parts(const io::GgufFile& file);

// Throws Error as Tokenizer::from_parts does, and as tokenizer_parts does.
LanguageText text_of_gguf(const io::GgufFile& file);
// From tokenizer.json, and where they exist tokenizer_config.json, chat_template.jinja, generation_config.json and
// config.json, of a folder with safetensors files. Throws Error as Tokenizer::load does, and invalid_model for JSON of
// another form than expected.
LanguageText text_of_folder(const FolderTexts& texts);
LanguageText text_of_folder(const std::filesystem::path& folder);
// Throws as the two above do.
LanguageText text_of_package(const io::LanguagePackage& package);
LanguageText text_of(const LanguageFiles& files);

// The tokenizer of a GGUF file, of a package, of a folder with one or with a tokenizer.json, or of a tokenizer.json
// itself. Throws as the functions above do.
Tokenizer tokenizer_at(const std::filesystem::path& path);

}  // namespace tessera::generate
