#include "generate/folder_texts.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/file.h"
#include "io/json_nesting.h"

namespace tessera::generate {

std::span<const std::string_view> FolderTexts::names() {
  static constexpr std::array<std::string_view, 5> kNames = {"config.json", "tokenizer.json", "tokenizer_config.json",
                                                             "generation_config.json", "chat_template.jinja"};
  return kNames;
}

FolderTexts::FolderTexts(const io::LanguagePackage& package)
    : package_(std::make_shared<const io::LanguagePackage>(package)) {}

bool FolderTexts::has(std::string_view name) const {
  return package_ != nullptr ? package_->content.texts.contains(name) : io::is_present(folder_ / name);
}

std::string FolderTexts::read(std::string_view name) const {
  if (package_ != nullptr) return std::string(package_->content.text(name));
  const std::vector<std::byte> bytes = io::read_file(folder_ / name, kMostBytes);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

nlohmann::json FolderTexts::object(std::string_view name) const {
  const std::string text = read(name);
  io::check_json_nesting(text, fmt::format("'{}'", where(name)));
  nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  require(json.is_object(), ErrorKind::invalid_model, "'{}' is no JSON object", where(name));
  return json;
}

Tokenizer FolderTexts::tokenizer() const {
  if (package_ == nullptr) return Tokenizer::load(folder_ / "tokenizer.json");
  return Tokenizer::from_json(package_->content.text("tokenizer.json"));
}

std::string FolderTexts::where(std::string_view name) const {
  return package_ != nullptr ? std::string(name) : (folder_ / name).string();
}

}  // namespace tessera::generate
