// Triton's configuration of a model, as config.pbtxt or as the JSON text of a request.
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/edit_distance.h"
#include "base/error.h"
#include "base/text.h"
#include "serve/core/config/field_table.h"
#include "serve/core/config/model_settings.h"
#include "serve/core/config/setting_checks.h"

namespace tessera::serve {
namespace {

constexpr std::size_t kMostJsonBytes = 1 << 20;
constexpr int kMostNestedMessages = 32;  // messages, one within the other

// The name of a field of the message that is written nearly alike, or "".
std::string similar_field(const google::protobuf::Descriptor& message, std::string_view name) {
  std::size_t least = 4;  // beyond that the words have nothing to do with each other
  std::string nearest;
  for (int i = 0; i < message.field_count(); ++i) {
    const std::size_t distance = base::edit_distance(name, message.field(i)->name());
    if (distance < least) least = distance, nearest = message.field(i)->name();
  }
  return nearest;
}

// The parser's sentence on an unknown field says nothing of fields that are known.
std::string with_suggestion(const std::string& message) {
  constexpr std::string_view kBegin = "Message type \"", kMiddle = "\" has no field named \"", kEnd = "\".";
  const std::size_t middle = message.find(kMiddle);
  if (!message.starts_with(kBegin) || middle == std::string::npos || !message.ends_with(kEnd)) return message;
  const std::string type = message.substr(kBegin.size(), middle - kBegin.size());
  const std::size_t begin = middle + kMiddle.size();
  const std::string name = message.substr(begin, message.size() - kEnd.size() - begin);
  const auto* const descriptor = inference::ModelConfig::descriptor()->file()->pool()->FindMessageTypeByName(type);
  const std::string nearest = descriptor != nullptr ? similar_field(*descriptor, name) : "";
  return fmt::format("{} has no field '{}'{}", type.substr(type.rfind('.') + 1), base::shown(name),
                     nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest));
}

// Keeps the first mistake and where it is.
class FirstMistake final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text.empty()) text = fmt::format("line {}, column {}: {}", line + 1, column + 1, with_suggestion(message));
  }
  void AddWarning(int, int, const std::string&) override {}
  std::string text;
};

// Reads the message into what this server knows of a model.
ModelSettings settings_from(inference::ModelConfig config, const std::string& where,
                            google::protobuf::TextFormat::ParseInfoTree* places) {
  ModelSettings settings;
  for (const FieldFinding& finding : find_special_fields(config, places)) {
    const std::string line = finding.line > 0 ? fmt::format(" (line {})", finding.line) : "";
    require(finding.rule->use != FieldUse::refused, ErrorKind::unsupported, "{} sets {}{}, which is not supported: {}",
            where, finding.path, line, finding.rule->reason);
    settings.ignored.push_back({finding.path + line, std::string(finding.rule->reason)});
  }
  settings.config = std::move(config);
  read_parameters(settings, where);
  check_settings(settings, where);
  return settings;
}

}  // namespace

ModelSettings parse_pbtxt(const std::string& text, const std::string& where) {
  inference::ModelConfig config;
  google::protobuf::TextFormat::Parser parser;
  google::protobuf::TextFormat::ParseInfoTree places;
  FirstMistake mistake;
  parser.RecordErrorsTo(&mistake);
  parser.WriteLocationsTo(&places);
  parser.SetRecursionLimit(kMostNestedMessages);
  require(parser.ParseFromString(text, &config), ErrorKind::invalid_argument, "{}: {}", where, mistake.text);
  const auto* const batch = inference::ModelConfig::descriptor()->FindFieldByName("max_batch_size");
  const bool is_given = places.GetLocation(batch, -1).line >= 0;  // 0 may have been given, too
  ModelSettings settings = settings_from(std::move(config), where, &places);
  settings.batching_is_given = is_given;
  return settings;
}

ModelSettings parse_config_json(const std::string& text, const std::string& where) {
  require(text.size() <= kMostJsonBytes, ErrorKind::over_budget, "{} has {} bytes, at most {} are read", where,
          text.size(), kMostJsonBytes);
  inference::ModelConfig config;
  const auto status = google::protobuf::util::JsonStringToMessage(text, &config);
  require(status.ok(), ErrorKind::invalid_argument, "{}: {}", where, base::shown(std::string(status.message())));
  ModelSettings settings = settings_from(std::move(config), where, nullptr);
  const auto json = nlohmann::json::parse(text, nullptr, false);
  settings.batching_is_given = json.contains("max_batch_size") || json.contains("maxBatchSize");
  return settings;
}

}  // namespace tessera::serve
