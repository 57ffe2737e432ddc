#include "text/post_processor.h"

#include "text/json_part.h"

namespace tessera::text {
namespace {

constexpr const char* kPostProcessor = "post_processor";
constexpr std::size_t kMostParts = 256;

// ["[SEP]", 102]
std::int64_t token_of(const nlohmann::json& part, const char* key) {
  const nlohmann::json& token = part.at(key);
  require(token.is_array() && token.size() == 2, ErrorKind::invalid_argument,
          "'{}' of the tokenizer's {} is no pair of a token and its number", key, kPostProcessor);
  return whole_number(token[1]);
}

std::vector<FramePart> read_template(const nlohmann::json& parts, const nlohmann::json& tokens, bool is_pair) {
  std::vector<FramePart> result;
  require(parts.is_array() && parts.size() <= kMostParts, ErrorKind::invalid_argument,
          "the tokenizer's template is no list of at most {} parts", kMostParts);
  for (const nlohmann::json& part : parts) {
    require(part.is_object() && part.size() == 1, ErrorKind::invalid_argument,
            "a part of the tokenizer's template is neither a sequence nor a token");
    const std::string& kind = part.begin().key();
    const nlohmann::json& body = part.begin().value();
    const std::int64_t type = whole_number(body, "type_id", 0);
    const std::string id = body.at("id").get<std::string>();
    if (kind == "Sequence") {
      require(id == "A" || (is_pair && id == "B"), ErrorKind::invalid_argument,
              "the tokenizer's template names the text '{}'", id);
      result.push_back({id == "A" ? 0 : 1, 0, type});
      continue;
    }
    require(kind == "SpecialToken" && tokens.contains(id), ErrorKind::invalid_argument,
            "the tokenizer's template names the token '{}', which it does not define", id);
    for (const nlohmann::json& each : tokens.at(id).at("ids")) result.push_back({-1, whole_number(each), type});
  }
  return result;
}

}  // namespace

TokenFrame make_frame(const nlohmann::json& part, int depth) {
  if (part.is_null()) return {};
  const std::string type = type_of(part, kPostProcessor);
  if (type == "ByteLevel") return {};  // it moves offsets alone
  if (type == "Sequence") {
    // The members work one after the other; all but one leave the tokens as they are.
    require(depth < kMostNesting, ErrorKind::invalid_argument, "the tokenizer's {}s are nested too deeply",
            kPostProcessor);
    TokenFrame frame;
    for (const nlohmann::json& member : part.at("processors"))
      if (type_of(member, kPostProcessor) != "ByteLevel") frame = make_frame(member, depth + 1);
    return frame;
  }
  if (type == "BertProcessing") {
    const std::int64_t cls = token_of(part, "cls"), sep = token_of(part, "sep");
    return {{{-1, cls, 0}, {0, 0, 0}, {-1, sep, 0}}, {{-1, cls, 0}, {0, 0, 0}, {-1, sep, 0}, {1, 0, 1}, {-1, sep, 1}}};
  }
  if (type == "RobertaProcessing") {
    const std::int64_t cls = token_of(part, "cls"), sep = token_of(part, "sep");
    return {{{-1, cls, 0}, {0, 0, 0}, {-1, sep, 0}},
            {{-1, cls, 0}, {0, 0, 0}, {-1, sep, 0}, {-1, sep, 0}, {1, 0, 0}, {-1, sep, 0}}};
  }
  if (type == "TemplateProcessing") {
    const nlohmann::json& tokens = part.at("special_tokens");
    return {read_template(part.at("single"), tokens, false), read_template(part.at("pair"), tokens, true)};
  }
  fail_unknown_part(type, kPostProcessor);
}

}  // namespace tessera::text
