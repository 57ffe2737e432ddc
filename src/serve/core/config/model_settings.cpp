#include "serve/core/config/model_settings.h"

#include <algorithm>

#include "base/error.h"
#include "io/file.h"
#include "io/toml_table.h"
#include "serve/core/config/model_toml.h"
#include "serve/core/config/setting_checks.h"
#include "serve/core/config/setting_values.h"
#include "serve/protocol/datatype.h"

namespace tessera::serve {
namespace {

constexpr std::int64_t kMostConfigBytes = 1 << 20;
constexpr std::int64_t kUsualQueue = 1024;
constexpr double kMostQueue = 1e6;
constexpr std::int64_t kMostVersions = 1000;

// The values of a table as texts, whatever kind they are of.
std::map<std::string, std::string> values_of(io::TomlTable table) {
  std::map<std::string, std::string> values;
  for (const std::string& key : table.keys()) values[key] = table.value_as_text(key);
  return values;
}

// Likewise, with the keys of the tables in it as "table.key".
std::map<std::string, std::string> generate_values(io::TomlTable table) {
  std::map<std::string, std::string> values;
  const std::vector<std::string> tables = table.tables();
  for (const std::string& name : tables) {
    for (const auto& [key, value] : values_of(table.table(name))) values[name + "." + key] = value;
  }
  for (const std::string& key : table.keys()) {
    if (std::ranges::find(tables, key) == tables.end()) values[key] = table.value_as_text(key);
  }
  return values;
}

std::string read_text(const std::filesystem::path& folder, const std::string& name) {
  io::InputFile file = io::InputFile::open_below(folder, name);
  require(file.bytes() <= kMostConfigBytes, ErrorKind::over_budget, "{} has {} bytes, at most {} are read", file.name(),
          file.bytes(), kMostConfigBytes);
  std::string text(static_cast<std::size_t>(file.bytes()), '\0');
  file.read(std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace

std::int64_t ModelSettings::delay_ns() const {
  return static_cast<std::int64_t>(config.dynamic_batching().max_queue_delay_microseconds()) * 1000;
}

std::int64_t ModelSettings::queue_limit() const {
  const std::int64_t given = config.dynamic_batching().default_queue_policy().max_queue_size();
  return given > 0 ? given : kUsualQueue;
}

int ModelSettings::instances() const {
  int count = 0;
  for (const inference::ModelInstanceGroup& group : config.instance_group()) count += std::max(group.count(), 1);
  return std::max(count, 1);
}

inference::DataType config_type(DType type) {
  const std::string_view name = type == DType::string ? "STRING" : datatype_name(type);
  inference::DataType found = inference::TYPE_INVALID;
  inference::DataType_Parse("TYPE_" + std::string(name), &found);
  return found;
}

DType type_of_config(inference::DataType type) {
  if (type == inference::TYPE_STRING) return DType::string;
  const std::string name = inference::DataType_Name(type);
  return datatype_from_name(std::string_view(name).substr(std::min<std::size_t>(5, name.size())))
      .value_or(DType::undefined);
}

ModelSettings parse_model_toml(const std::string& text, const std::string& where) {
  io::TomlTable table = io::TomlTable::parse(text, where);
  ModelSettings settings;
  inference::ModelConfig& config = settings.config;
  settings.batching_is_given = table.has("max_batch_size");
  config.set_max_batch_size(static_cast<std::int32_t>(
      setting_within(static_cast<double>(table.whole("max_batch_size", 0)), kMostBatch, "max_batch_size", where)));
  settings.priority = priority_of(table.text("priority", "standard"), where);
  settings.weight = table.number("weight", 1);
  settings.goal_ns = goal_ns_of(table.number("goal_ms", 0), where);
  settings.memory_limit_bytes = memory_bytes_of(static_cast<double>(table.whole("memory_limit_mib", 0)), where);
  settings.threads = threads_of(static_cast<double>(table.whole("threads", 0)), where);
  settings.precision = table.text("precision", "");
  config.set_default_model_filename(table.text("file", ""));
  if (table.has("instances")) {
    inference::ModelInstanceGroup& group = *config.add_instance_group();
    group.set_kind(inference::ModelInstanceGroup::KIND_CPU);
    const std::int64_t count = table.whole("instances", 1);
    require(count >= 1 && count <= kMostInstances, ErrorKind::invalid_argument,
            "instances in {} is {}, expected 1 to {}", where, count, kMostInstances);
    group.set_count(static_cast<std::int32_t>(count));
  }
  require(!table.has("batching") || !table.has("sequence"), ErrorKind::invalid_argument,
          "{} has both [batching] and [sequence]: the latter batches steps of different sequences", where);
  if (table.has("batching")) {
    io::TomlTable batching = table.table("batching");
    inference::ModelDynamicBatching& dynamic = *config.mutable_dynamic_batching();
    dynamic.set_max_queue_delay_microseconds(
        static_cast<std::uint64_t>(setting_within(batching.number("delay_us", 0), kMostDelayUs, "delay_us", where)));
    for (const double size : batching.numbers("preferred"))
      dynamic.add_preferred_batch_size(static_cast<std::int32_t>(setting_within(size, kMostBatch, "preferred", where)));
    dynamic.mutable_default_queue_policy()->set_max_queue_size(static_cast<std::uint32_t>(
        setting_within(static_cast<double>(batching.whole("queue", 0)), kMostQueue, "queue", where)));
  }
  for (const auto& [output, file] : table.table("labels").all_texts()) {
    inference::ModelOutput& described = *config.add_output();
    described.set_name(output);
    described.set_label_filename(file);
  }
  io::TomlTable shares = table.table("shares");
  for (const std::string& version : shares.keys())
    settings.shares[version_of(version, where)] = shares.number(version, 0);
  settings.before = values_of(table.table("before"));
  settings.after = values_of(table.table("after"));
  settings.generate = generate_values(table.table("generate"));
  if (settings.shares.empty() || table.has("versions")) {
    const std::int64_t versions = table.whole("versions", 1);
    require(versions >= 1 && versions <= kMostVersions, ErrorKind::invalid_argument,
            "versions in {} is {}, expected 1 to {}", where, versions, kMostVersions);
    config.mutable_version_policy()->mutable_latest()->set_num_versions(static_cast<std::uint32_t>(versions));
  }
  io::TomlTable warm_ups = table.table("warmup");
  for (const std::string& name : warm_ups.tables())
    read_warm_up(name, warm_ups.table(name), *config.add_model_warmup(), where);
  if (table.has("sequence")) read_sequence(table.table("sequence"), *config.mutable_sequence_batching(), where);
  if (table.boolean("cache", false)) config.mutable_response_cache()->set_enable(true);
  table.check_all_read();
  check_settings(settings, where);
  return settings;
}

ModelSettings read_model_settings(const std::filesystem::path& folder, const std::string& name) {
  ModelSettings settings;
  if (std::filesystem::exists(folder / "config.pbtxt"))
    settings = parse_pbtxt(read_text(folder, "config.pbtxt"), name + "/config.pbtxt");
  else if (std::filesystem::exists(folder / "config.toml"))
    settings = parse_model_toml(read_text(folder, "config.toml"), name + "/config.toml");
  return with_name(std::move(settings), name);
}

ModelSettings with_name(ModelSettings settings, const std::string& name) {
  require(settings.config.name().empty() || settings.config.name() == name, ErrorKind::invalid_argument,
          "the configuration of the model '{}' is of a model named '{}'", name, settings.config.name());
  settings.config.set_name(name);
  return settings;
}

}  // namespace tessera::serve
