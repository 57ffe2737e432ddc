#include "generate/language_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/file.h"
#include "io/model_format.h"

namespace tessera::generate {
namespace {

constexpr std::int64_t kMostTokens = 1 << 22;

std::string text_value(const io::GgufFile& file, const std::string& key) {
  const io::GgufValue* value = file.find("tokenizer." + key);
  return value == nullptr ? "" : std::string(value->text());
}

std::int64_t token_value(const io::GgufFile& file, const std::string& role) {
  const io::GgufValue* value = file.find("tokenizer.ggml." + role + "_token_id");
  return value == nullptr ? -1 : value->integer();
}

std::optional<bool> flag_value(const io::GgufFile& file, const std::string& name) {
  const io::GgufValue* value = file.find("tokenizer.ggml." + name);
  return value == nullptr ? std::nullopt : std::optional(value->flag());
}

// The elements of a list, converted one by one; empty when the file does not have it.
template <typename T, typename Read>
std::vector<T> list_value(const io::GgufFile& file, const std::string& name, Read read) {
  const io::GgufValue* value = file.find("tokenizer.ggml." + name);
  if (value == nullptr) return {};
  require(value->count() <= kMostTokens, ErrorKind::over_budget, "'{}' has {} elements, more than the limit of {}",
          value->key(), value->count(), kMostTokens);
  std::vector<T> result;
  for (const auto& element : read(*value)) result.emplace_back(static_cast<T>(element));
  return result;
}

// The object in a JSON file, empty when there is no such file.
nlohmann::json object_in(const FolderTexts& texts, std::string_view name) {
  return texts.has(name) ? texts.object(name) : nlohmann::json::object();
}

// A special token in tokenizer_config.json: its text, or an object with it.
std::string special_token(const nlohmann::json& config, const char* name) {
  const auto found = config.find(name);
  if (found == config.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  if (found->is_object() && found->contains("content") && (*found)["content"].is_string())
    return (*found)["content"].get<std::string>();
  return "";
}

// The chat template of tokenizer_config.json: its text, or of several the one that is named "default".
std::string template_in(const nlohmann::json& config) {
  const auto found = config.find("chat_template");
  if (found == config.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array()) return "";
  for (const nlohmann::json& named : *found) {
    if (!named.is_object() || !named.contains("name") || named["name"] != "default") continue;
    return named.contains("template") && named["template"].is_string() ? named["template"].get<std::string>() : "";
  }
  return "";
}

// Adds the number or the list of numbers under eos_token_id.
void add_end_tokens(const nlohmann::json& config, const std::string& file, std::vector<std::int64_t>& tokens) {
  const auto found = config.find("eos_token_id");
  if (found == config.end() || found->is_null()) return;
  const nlohmann::json list = found->is_array() ? *found : nlohmann::json::array({*found});
  for (const nlohmann::json& token : list) {
    require(token.is_number_integer(), ErrorKind::invalid_model,
            "eos_token_id in '{}' holds {}, expected a number or a list of numbers", file, base::shown(token.dump()));
    tokens.push_back(token.get<std::int64_t>());
  }
}

std::vector<std::int64_t> sorted(std::vector<std::int64_t> tokens) {
  std::ranges::sort(tokens);
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

}  // namespace

TokenizerParts tokenizer_parts(const io::GgufFile& file) {
  const auto texts = [](const io::GgufValue& value) { return value.texts(); };
  const auto numbers = [](const io::GgufValue& value) { return value.numbers(); };
  const auto integers = [](const io::GgufValue& value) { return value.integers(); };
  TokenizerParts parts;
  parts.model = file.value("tokenizer.ggml.model").text();
  parts.pre = text_value(file, "ggml.pre");
  const io::GgufValue* name = file.find("general.name");
  if (name != nullptr) parts.name = name->text();
  parts.tokens = list_value<std::string>(file, "tokens", texts);
  parts.scores = list_value<float>(file, "scores", numbers);
  parts.types = list_value<std::int32_t>(file, "token_type", integers);
  parts.merges = list_value<std::string>(file, "merges", texts);
  parts.bos = token_value(file, "bos");
  parts.eos = token_value(file, "eos");
  parts.eot = token_value(file, "eot");
  parts.eom = token_value(file, "eom");
  parts.unknown = token_value(file, "unknown");
  parts.separator = token_value(file, "seperator");  // as the format spells it
  parts.padding = token_value(file, "padding");
  parts.cls = token_value(file, "cls");
  parts.add_bos = flag_value(file, "add_bos_token");
  parts.add_eos = flag_value(file, "add_eos_token");
  parts.add_space_prefix = flag_value(file, "add_space_prefix");
  parts.remove_extra_whitespaces = flag_value(file, "remove_extra_whitespaces").value_or(false);
  for (const std::int64_t byte : list_value<std::int64_t>(file, "precompiled_charsmap", integers))
    parts.precompiled_charsmap += static_cast<char>(byte);
  return parts;
}

LanguageText text_of_gguf(const io::GgufFile& file) {
  const Tokenizer tokenizer = Tokenizer::from_parts(tokenizer_parts(file));
  return {tokenizer, tokenizer.end_of_generation(), text_value(file, "chat_template"),
          tokenizer.token_of(tokenizer.bos()), tokenizer.token_of(tokenizer.eos())};
}

LanguageText text_of_folder(const std::filesystem::path& folder) {
  return text_of_folder(FolderTexts(folder));
}

LanguageText text_of_folder(const FolderTexts& texts) {
  LanguageText text{texts.tokenizer(), {}, {}, {}, {}};
  const nlohmann::json config = object_in(texts, "tokenizer_config.json");
  text.bos_text = special_token(config, "bos_token");
  text.eos_text = special_token(config, "eos_token");
  if (texts.has("chat_template.jinja")) text.chat_template = texts.read("chat_template.jinja");
  else text.chat_template = template_in(config);
  std::vector<std::int64_t> tokens = text.tokenizer.end_of_generation();
  for (const char* name : {"generation_config.json", "config.json"})
    add_end_tokens(object_in(texts, name), texts.where(name), tokens);
  const std::int64_t eos = text.eos_text.empty() ? -1 : text.tokenizer.id_of(text.eos_text);
  if (eos >= 0) tokens.push_back(eos);
  text.end_tokens = sorted(std::move(tokens));
  return text;
}

LanguageText text_of_package(const io::LanguagePackage& package) {
  return package.content.form == io::LanguageForm::gguf ? text_of_gguf(metadata_of_package(package))
                                                        : text_of_folder(FolderTexts(package));
}

LanguageText text_of(const LanguageFiles& files) {
  if (files.package) return text_of_package(*files.package);
  return files.gguf ? text_of_gguf(*files.gguf) : text_of_folder(files.folder);
}

Tokenizer tokenizer_at(const std::filesystem::path& path) {
  const std::filesystem::path file = io::language_model_at(path);
  if (io::is_folder(file)) return Tokenizer::load(file / "tokenizer.json");
  const bool is_package = io::is_present(file) && io::is_language_package_file(file);
  if (!is_package && !io::is_gguf_file(file)) return Tokenizer::load(file);
  try {
    if (is_package) return text_of_package(io::open_language_package(file)).tokenizer;
    return text_of_gguf(io::GgufFile::open(file)).tokenizer;
  } catch (Error& error) {
    if (error.context().empty()) error.add_context("file " + file.string());
    throw;
  }
}

}  // namespace tessera::generate
