#include "report/inspect/language_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/numbers/units.h"
#include "base/text.h"
#include "io/file.h"
#include "io/gguf/gguf_file.h"
#include "io/json_nesting.h"
#include "io/model_format.h"
#include "io/package/language_package.h"
#include "io/safetensors/safetensors_file.h"

namespace tessera::report {
namespace {

constexpr std::int64_t kLongestList = 64;
constexpr std::int64_t kMostJsonBytes = std::int64_t{64} << 20;

nlohmann::json scalar_json(const io::GgufValue& value) {
  switch (value.type()) {
    case io::GgufType::string:
      return std::string(value.text());
    case io::GgufType::boolean:
      return value.flag();
    case io::GgufType::f32:
      // The shortest decimal number that is this float32: 1e-05, not 9.999999747378752e-06.
      return std::stod(fmt::format("{}", static_cast<float>(value.number())));
    case io::GgufType::f64:
      return value.number();
    default:
      return value.integer();
  }
}

nlohmann::json value_json(const io::GgufValue& value) {
  if (!value.is_array()) return scalar_json(value);
  if (value.count() > kLongestList || value.element_type() == io::GgufType::array)
    return {{"type", value.description()}, {"count", value.count()}};
  nlohmann::json list = nlohmann::json::array();
  for (const io::GgufValue& element : value.elements()) list.push_back(scalar_json(element));
  return list;
}

std::string text_of(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string text_value(const io::GgufFile& file, std::string_view key) {
  const io::GgufValue* value = file.find(key);
  return value == nullptr ? "" : std::string(value->text());
}

void add_tensor(LanguageFileInfo& info, LanguageFileInfo::TensorLine line, std::int64_t elements) {
  info.parameters += elements;
  auto format = std::ranges::find(info.formats, line.format, &LanguageFileInfo::Format::name);
  if (format == info.formats.end()) format = info.formats.insert(format, {line.format, 0, 0, 0});
  ++format->tensors;
  format->elements += elements;
  format->bytes += line.bytes;
  info.tensors.push_back(std::move(line));
}

// A special token: "<|im_end|> (2)".
std::string token_text(const io::GgufValue& tokens, std::int64_t id) {
  if (id < 0 || id >= tokens.count()) return fmt::format("{}, which is no token", id);
  return fmt::format("{} ({})", tokens.texts()[static_cast<std::size_t>(id)], id);
}

std::string gguf_tokenizer(const io::GgufFile& file) {
  constexpr std::string_view kPrefix = "tokenizer.ggml.", kId = "_token_id";
  const io::GgufValue* tokens = file.find("tokenizer.ggml.tokens");
  if (tokens == nullptr) return "";
  const std::string pre = text_value(file, "tokenizer.ggml.pre");
  std::string text = fmt::format("{}{}{}, {} tokens", text_value(file, "tokenizer.ggml.model"),
                                 pre.empty() ? "" : " / ", pre, tokens->count());
  for (const io::GgufValue& value : file.metadata()) {
    const std::string_view key = value.key();
    if (key.starts_with(kPrefix) && key.ends_with(kId))
      text += fmt::format(", {} {}", key.substr(kPrefix.size(), key.size() - kPrefix.size() - kId.size()),
                          token_text(*tokens, value.integer()));
  }
  return text;
}

// Adds the facts that the metadata state.
void describe_metadata(const io::GgufFile& file, LanguageFileInfo& info) {
  info.architecture = text_value(file, "general.architecture");
  info.name = text_value(file, "general.name");
  info.tokenizer = gguf_tokenizer(file);
  info.chat_template = text_value(file, "tokenizer.chat_template");
  info.metadata = nlohmann::json::object();
  for (const io::GgufValue& value : file.metadata()) {
    nlohmann::json json = value_json(value);
    const std::string prefix = info.architecture + ".";
    if (!info.architecture.empty() && value.key().starts_with(prefix))
      info.sizes.emplace_back(value.key().substr(prefix.size()), text_of(json));
    info.metadata[std::string(value.key())] = std::move(json);
  }
}

LanguageFileInfo describe_gguf(const std::filesystem::path& path) {
  const io::GgufFile file = io::GgufFile::open(path);
  LanguageFileInfo info;
  info.container = fmt::format("GGUF version {}", file.version());
  info.files = file.shards();
  info.bytes = file.bytes();
  describe_metadata(file, info);
  for (const io::GgufTensor& tensor : file.tensors())
    add_tensor(info,
               {std::string(tensor.name),
                std::string(tensor.format_name()),
                {tensor.dimensions.rbegin(), tensor.dimensions.rend()},
                static_cast<std::int64_t>(tensor.bytes.size())},
               tensor.elements());
  return info;
}

// The texts beside the weights of a folder by their names, or null where there is no such text.
using TextReader = std::function<std::optional<std::string>(const std::string& name)>;

nlohmann::json json_of(const TextReader& read, const std::string& name) {
  const std::optional<std::string> text = read(name);
  if (!text) return nullptr;
  io::check_json_nesting(*text, fmt::format("'{}'", name));
  nlohmann::json json = nlohmann::json::parse(*text, nullptr, false);
  require(json.is_object(), ErrorKind::invalid_model, "'{}' is no JSON object", name);
  return json;
}

std::string template_of(const TextReader& read) {
  if (std::optional<std::string> text = read("chat_template.jinja")) return std::move(*text);
  const nlohmann::json config = json_of(read, "tokenizer_config.json");
  return config.is_object() && config.contains("chat_template") && config["chat_template"].is_string()
             ? config["chat_template"].get<std::string>()
             : "";
}

void describe_texts(const TextReader& read, LanguageFileInfo& info) {
  const nlohmann::json config = json_of(read, "config.json");
  if (config.is_object()) {
    info.metadata["config.json"] = config;
    if (config.contains("model_type")) info.architecture = text_of(config["model_type"]);
    if (config.contains("_name_or_path")) info.name = text_of(config["_name_or_path"]);
    for (const auto& [key, value] : config.items())
      if (value.is_number() || value.is_boolean()) info.sizes.emplace_back(key, text_of(value));
  }
  if (read("tokenizer.json")) info.tokenizer = "tokenizer.json";
  info.chat_template = template_of(read);
}

LanguageFileInfo describe_safetensors(const std::filesystem::path& path) {
  const io::SafetensorsFile file = io::SafetensorsFile::open(path);
  LanguageFileInfo info;
  info.container = "safetensors";
  info.files = file.shards();
  info.bytes = file.bytes();
  info.metadata = {{"__metadata__", file.metadata()}};
  const TextReader read = [&](const std::string& name) -> std::optional<std::string> {
    if (!io::is_present(file.folder() / name)) return std::nullopt;
    const std::vector<std::byte> bytes = io::read_file(file.folder() / name, kMostJsonBytes);
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  describe_texts(read, info);
  for (const io::SafetensorsTensor& tensor : file.tensors())
    add_tensor(
        info,
        {tensor.name, std::string(name_of(tensor.dtype)), tensor.shape, static_cast<std::int64_t>(tensor.bytes.size())},
        element_count(tensor.shape));
  return info;
}

LanguageFileInfo describe_package(const std::filesystem::path& path) {
  io::verify_package(path);
  const io::LanguagePackage file = io::open_language_package(path);
  const io::PackageInfo& made = file.origin->info;
  LanguageFileInfo info;
  info.container = "Tessera's package";
  info.files = 1;
  info.bytes = file.file_bytes;
  info.package = fmt::format("by Tessera {}, for {} with {}; {} weights are packed too, {}; all checksums agree",
                             made.tessera_version, made.device, made.instruction_set, file.origin->packings->size(),
                             base::format_bytes(file.origin->packings->bytes()));
  info.metadata = nlohmann::json::object();
  if (file.content.form == io::LanguageForm::gguf) {
    const std::string_view text = file.content.text(io::kGgufMetadata);
    describe_metadata(io::GgufFile::from_bytes(std::as_bytes(std::span(text)), file.origin->packings->owner()), info);
  } else {
    describe_texts(
        [&](const std::string& name) {
          const auto found = file.content.texts.find(name);
          return found != file.content.texts.end() ? std::optional<std::string>(found->second) : std::nullopt;
        },
        info);
  }
  for (const io::LanguageTensor& tensor : file.content.tensors)
    add_tensor(info,
               {tensor.name,
                std::string(base::layout_of(tensor.format).name),
                {tensor.rows, tensor.columns},
                tensor.bytes.bytes()},
               tensor.rows * tensor.columns);
  return info;
}

std::string line(std::string_view title, std::string_view text) {
  return fmt::format("{:<12} {}\n", title, base::printable(base::shortened(text, 1000)));
}

}  // namespace

LanguageFileInfo describe_language_file(const std::filesystem::path& given) {
  const std::filesystem::path path = io::language_model_at(given);
  LanguageFileInfo info = io::is_language_package_file(path) ? describe_package(path)
                          : io::is_gguf_file(path)           ? describe_gguf(path)
                                                             : describe_safetensors(path);
  std::ranges::stable_sort(info.formats, std::greater<>(), &LanguageFileInfo::Format::bytes);
  return info;
}

std::string language_file_text(const LanguageFileInfo& info, bool weights, bool metadata) {
  std::string text = line(
      "file", fmt::format("{}{}, {}", info.container, info.files > 1 ? fmt::format(" in {} files", info.files) : "",
                          base::format_bytes(info.bytes)));
  if (!info.package.empty()) text += line("package", info.package);
  text += line("architecture", info.architecture.empty() ? "not stated" : info.architecture);
  if (!info.name.empty()) text += line("name", info.name);
  text += line("parameters", base::format_count(static_cast<double>(info.parameters)));
  for (const auto& [key, value] : info.sizes) text += line("size", fmt::format("{} = {}", key, value));
  for (const LanguageFileInfo::Format& format : info.formats)
    text += line("weights",
                 fmt::format("{}: {} tensors, {} elements, {}, {:.2f} bits an element", format.name, format.tensors,
                             base::format_count(static_cast<double>(format.elements)), base::format_bytes(format.bytes),
                             format.elements == 0
                                 ? 0.0
                                 : 8.0 * static_cast<double>(format.bytes) / static_cast<double>(format.elements)));
  text += line("tokenizer", info.tokenizer.empty() ? "none in the file" : info.tokenizer);
  text += line("template", info.chat_template.empty()
                               ? "none in the file"
                               : fmt::format("{} bytes (--metadata prints it)", info.chat_template.size()));
  if (metadata) {
    text += "\nmetadata\n";
    for (const auto& [key, value] : info.metadata.items())
      text += fmt::format("  {} = {}\n", base::printable(base::shown(key)),
                          base::printable(base::shortened(text_of(value), 4000)));
    std::string_view rest = info.chat_template;
    if (!rest.empty()) text += "\nchat template\n";
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      text += base::printable(rest.substr(0, end)) + "\n";
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  if (weights) {
    text += "\nweights\n";
    for (const LanguageFileInfo::TensorLine& tensor : info.tensors)
      text += fmt::format("  {:<8} {:<16} {:>10}  {}\n", tensor.format, fmt::format("{}", tensor.shape),
                          base::format_bytes(tensor.bytes), base::printable(base::shown(tensor.name)));
  }
  return text;
}

nlohmann::json language_file_json(const LanguageFileInfo& info, const std::string& title) {
  nlohmann::json sizes = nlohmann::json::object(), formats = nlohmann::json::array(), tensors = nlohmann::json::array();
  for (const auto& [key, value] : info.sizes) {
    // A list of numbers at most; a text of the file may look like anything.
    const bool is_flat = io::json_nesting(value, 2) < 2;
    const nlohmann::json number = is_flat ? nlohmann::json::parse(value, nullptr, false) : nlohmann::json(value);
    sizes[key] = number.is_discarded() ? nlohmann::json(value) : number;
  }
  for (const LanguageFileInfo::Format& format : info.formats)
    formats.push_back(
        {{"format", format.name}, {"tensors", format.tensors}, {"elements", format.elements}, {"bytes", format.bytes}});
  for (const LanguageFileInfo::TensorLine& tensor : info.tensors)
    tensors.push_back(
        {{"name", tensor.name}, {"format", tensor.format}, {"shape", tensor.shape}, {"bytes", tensor.bytes}});
  nlohmann::json package = info.package.empty() ? nlohmann::json(nullptr) : nlohmann::json(info.package);
  return {{"model", title},
          {"container", info.container},
          {"package", std::move(package)},
          {"files", info.files},
          {"bytes", info.bytes},
          {"architecture", info.architecture},
          {"name", info.name},
          {"parameters", info.parameters},
          {"sizes", std::move(sizes)},
          {"formats", std::move(formats)},
          {"tokenizer", info.tokenizer},
          {"chat_template", info.chat_template},
          {"metadata", info.metadata},
          {"tensors", std::move(tensors)}};
}

}  // namespace tessera::report
