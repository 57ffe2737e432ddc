// Gives tests in Python access to tokenizers and chat templates: reads one request a line, as JSON, and answers each by
// a line of JSON. Usage: text_probe FILE, a tokenizer.json of Hugging Face's, the parts of a GGUF file's tokenizer as
// JSON, or a template whose name ends with .jinja.
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tessera/error.h"
#include "tessera/tokenizer.h"
#include "text/template/chat_template.h"

namespace tessera {
namespace {

using nlohmann::json;

TokenizerParts parts_of(const json& given) {
  TokenizerParts parts;
  parts.model = given.at("model");
  parts.pre = given.value("pre", "");
  parts.name = given.value("name", "");
  parts.tokens = given.at("tokens").get<std::vector<std::string>>();
  parts.scores = given.value("scores", std::vector<float>());
  parts.types = given.value("types", std::vector<std::int32_t>());
  parts.merges = given.value("merges", std::vector<std::string>());
  for (const auto& [key, id] : {std::pair{"bos", &parts.bos},
                                {"eos", &parts.eos},
                                {"eot", &parts.eot},
                                {"eom", &parts.eom},
                                {"unknown", &parts.unknown},
                                {"separator", &parts.separator},
                                {"padding", &parts.padding},
                                {"cls", &parts.cls}})
    *id = given.value(key, std::int64_t{-1});
  for (const auto& [key, flag] : {std::pair{"add_bos", &parts.add_bos},
                                  {"add_eos", &parts.add_eos},
                                  {"add_space_prefix", &parts.add_space_prefix}})
    if (given.contains(key)) *flag = given.at(key).get<bool>();
  parts.remove_extra_whitespaces = given.value("remove_extra_whitespaces", false);
  for (const int byte : given.value("precompiled_charsmap", std::vector<int>()))
    parts.precompiled_charsmap.push_back(static_cast<char>(byte));
  return parts;
}

Tokenizer tokenizer_of(const char* path) {
  std::ifstream file(path);
  const json given = json::parse(file);
  return given.contains("tokens") ? Tokenizer::from_parts(parts_of(given)) : Tokenizer::load(path);
}

json answer(const Tokenizer& tokenizer, const json& request) {
  if (request.contains("decode")) {
    const auto ids = request.at("decode").get<std::vector<std::int64_t>>();
    IncrementalDecoder decoder(tokenizer);
    std::string streamed;
    bool whole = true;
    for (const std::int64_t id : ids) {
      const std::string piece = decoder.add(id);
      whole = whole && (json(piece).dump(-1, ' ', false, json::error_handler_t::ignore) == json(piece).dump());
      streamed += piece;
    }
    streamed += decoder.finish();
    return {{"text", tokenizer.decode(ids)}, {"streamed", streamed}, {"whole_characters", whole}};
  }
  std::vector<TextRange> literal;
  for (const json& range : request.value("literal", json::array())) literal.push_back({range.at(0), range.at(1)});
  TokenizerOptions options;
  options.add_special_tokens = request.value("add_special", false);
  options.recognize_special = request.value("recognize_special", false);
  options.literal = literal;
  return tokenizer.encode_ids(request.at("encode").get_ref<const std::string&>(), options);
}

json answer(const text::ChatTemplate& chat_template, const std::string& request) {
  const auto given = nlohmann::ordered_json::parse(request);
  text::TemplateOptions options;
  options.now = given.value("now", std::int64_t{0});
  const text::RenderedChat chat = chat_template.render(given.at("variables"), options);
  json ranges = json::array();
  for (const TextRange& range : chat.user_ranges) ranges.push_back({range.begin, range.end});
  return {{"text", chat.text}, {"user_ranges", ranges}};
}

template <typename Answer>
void answer_all(Answer answer_one) {
  for (std::string line; std::getline(std::cin, line);) {
    try {
      std::cout << answer_one(line) << std::endl;
    } catch (const Error& error) {
      std::cout << json{{"error", error.what()}, {"kind", to_string(error.kind())}} << std::endl;
    }
  }
}

int run(const char* path) {
  try {
    if (std::string_view(path).ends_with(".jinja")) {
      std::ifstream file(path);
      const std::string source(std::istreambuf_iterator<char>(file), {});
      const text::ChatTemplate chat_template(source);
      std::cout << json::object() << std::endl;
      answer_all([&](const std::string& line) { return answer(chat_template, line); });
      return 0;
    }
    const Tokenizer tokenizer = tokenizer_of(path);
    std::cout << json{{"end_of_generation", tokenizer.end_of_generation()}} << std::endl;
    answer_all([&](const std::string& line) { return answer(tokenizer, json::parse(line)); });
    return 0;
  } catch (const Error& error) {
    std::cout << json{{"error", error.what()}} << std::endl;
    return exit_code(error.kind());
  }
}

}  // namespace
}  // namespace tessera

int main(int count, char** arguments) {
  return count == 2 ? tessera::run(arguments[1]) : 2;
}
