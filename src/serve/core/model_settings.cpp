#include "serve/core/model_settings.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "io/file.h"
#include "io/toml_table.h"
#include "serve/core/model_toml.h"
#include "serve/protocol/datatype.h"

namespace tessera::serve {
namespace {

constexpr std::int64_t kMostConfigBytes = 1 << 20;
constexpr std::int64_t kUsualQueue = 1024;
constexpr int kUsualBatch = 8;
constexpr std::uint32_t kMostWarmUps = 1000;  // of one kind
constexpr int kMostBatch = 4096, kMostInstances = 64;
constexpr double kMostGoalMs = 1e9, kMostMemoryMib = 1e9, kMostThreads = 1024, kMostDelayUs = 1e7, kMostQueue = 1e6;

// Keeps the first mistake and where it is.
class FirstMistake final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text.empty()) text = fmt::format("line {}, column {}: {}", line + 1, column + 1, message);
  }
  void AddWarning(int, int, const std::string&) override {}
  std::string text;
};

Priority priority_of(const std::string& name, const std::string& where) {
  if (name == "realtime") return Priority::realtime;
  if (name == "standard") return Priority::standard;
  if (name == "background") return Priority::background;
  fail(ErrorKind::invalid_argument, "'{}' in {} is no priority, expected realtime, standard or background", name,
       where);
}

// The number if it is within 0 and `most`, so that it can be converted to units and to whole numbers.
double within(double number, double most, std::string_view key, const std::string& where) {
  require(number >= 0 && number <= most, ErrorKind::invalid_argument, "'{}' in {} is {}, expected 0 to {}", key, where,
          number, most);
  return number;
}

double number_of(const std::string& text, const std::string& key, const std::string& where) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  require(error == std::errc() && end == text.data() + text.size() && number >= 0 && std::isfinite(number),
          ErrorKind::invalid_argument, "'{}' in {} is '{}', expected a number", key, where, text);
  return number;
}

std::int64_t version_of(const std::string& text, const std::string& where) {
  std::int64_t version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  require(error == std::errc() && end == text.data() + text.size() && version > 0, ErrorKind::invalid_argument,
          "'{}' has a share in {}, but is no version: expected a number above 0", text, where);
  return version;
}

std::int64_t goal_ns_of(double goal_ms, const std::string& where) {
  return static_cast<std::int64_t>(within(goal_ms, kMostGoalMs, "goal_ms", where) * 1e6);
}

std::int64_t bytes_of(double mib, const std::string& where) {
  return static_cast<std::int64_t>(within(mib, kMostMemoryMib, "memory_limit_mib", where)) << 20;
}

int threads_of(double threads, const std::string& where) {
  return static_cast<int>(within(threads, kMostThreads, "threads", where));
}

// Tessera's own settings, which stand among the parameters of config.pbtxt.
void read_parameters(ModelSettings& settings, const std::string& where) {
  for (const auto& [key, value] : settings.config.parameters()) {
    const std::string& text = value.string_value();
    if (key == "priority") settings.priority = priority_of(text, where);
    else if (key == "weight") settings.weight = number_of(text, key, where);
    else if (key == "goal_ms") settings.goal_ns = goal_ns_of(number_of(text, key, where), where);
    else if (key == "memory_limit_mib") settings.memory_limit_bytes = bytes_of(number_of(text, key, where), where);
    else if (key == "threads") settings.threads = threads_of(number_of(text, key, where), where);
    else if (key == "precision") settings.precision = text;
    else if (key.starts_with("share.")) settings.shares[version_of(key.substr(6), where)] = number_of(text, key, where);
    else if (key.starts_with("before.")) settings.before[key.substr(7)] = text;
    else if (key.starts_with("after.")) settings.after[key.substr(6)] = text;
  }
}

void check_sequences(const ModelSettings& settings, const std::string& where) {
  const inference::ModelConfig& config = settings.config;
  if (!config.has_sequence_batching()) return;
  const inference::ModelSequenceBatching& rules = config.sequence_batching();
  require(!rules.iterative_sequence(), ErrorKind::unsupported,
          "{} asks for iterative sequences, which this server does not have", where);
  require(settings.before.empty() && settings.after.empty(), ErrorKind::unsupported,
          "{} has steps before or after a network with sequence batching: put it into an ensemble", where);
  require(!config.response_cache().enable(), ErrorKind::invalid_argument,
          "{} asks for a response cache, but the answers of a model with sequence batching depend on its states",
          where);
  for (const std::int32_t size : rules.oldest().preferred_batch_size())
    require(size >= 1 && size <= std::max(config.max_batch_size(), 1), ErrorKind::invalid_argument,
            "preferred_batch_size in {} has {}, expected 1 to max_batch_size ({})", where, size,
            config.max_batch_size());
}

void check(const ModelSettings& settings, const std::string& where) {
  const inference::ModelConfig& config = settings.config;
  require(config.max_batch_size() >= 0 && config.max_batch_size() <= kMostBatch, ErrorKind::invalid_argument,
          "max_batch_size in {} is {}, expected 0 to {}", where, config.max_batch_size(), kMostBatch);
  for (const inference::ModelInstanceGroup& group : config.instance_group()) {
    require(group.kind() != inference::ModelInstanceGroup::KIND_GPU, ErrorKind::unsupported,
            "{} asks for instances on a GPU, and this server computes on the CPU: use KIND_CPU", where);
    require(group.count() >= 0 && group.count() <= kMostInstances, ErrorKind::invalid_argument,
            "an instance group in {} has the count {}, expected 1 to {}", where, group.count(), kMostInstances);
  }
  for (const std::int32_t size : config.dynamic_batching().preferred_batch_size())
    require(size >= 1 && size <= std::max(config.max_batch_size(), 1), ErrorKind::invalid_argument,
            "preferred_batch_size in {} has {}, expected 1 to max_batch_size ({})", where, size,
            config.max_batch_size());
  check_sequences(settings, where);
  require(!settings.is_ensemble() || config.model_warmup_size() == 0, ErrorKind::unsupported,
          "{} has a warm-up for an ensemble: its models have theirs", where);
  for (const inference::ModelWarmup& warm_up : config.model_warmup())
    require(warm_up.count() <= kMostWarmUps, ErrorKind::invalid_argument,
            "the warm-up '{}' in {} has the count {}, expected at most {}", warm_up.name(), where, warm_up.count(),
            kMostWarmUps);
  require(!config.model_transaction_policy().decoupled(), ErrorKind::unsupported,
          "{} asks for decoupled answers, which this server does not have", where);
  require(settings.weight > 0 && std::isfinite(settings.weight), ErrorKind::invalid_argument,
          "the weight in {} must be above 0 and finite", where);
  require(settings.precision.empty() || settings.precision == "f32" || settings.precision == "bf16",
          ErrorKind::invalid_argument, "the precision in {} is '{}', expected f32 or bf16", where, settings.precision);
}

// The values of a table as texts, whatever kind they are of.
std::map<std::string, std::string> values_of(io::TomlTable table) {
  std::map<std::string, std::string> values;
  for (const std::string& key : table.keys()) values[key] = table.value_as_text(key);
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

bool says_batch(std::string_view name) {
  constexpr std::array<std::string_view, 5> kNames{"N", "n", "bs", "B", "b"};
  return name.find("batch") != std::string_view::npos || std::ranges::find(kNames, name) != kNames.end();
}

bool has_batch(const Model& model) {
  std::string name;
  const auto fits = [&](const ValueDescription& value) {
    if (!value.rank_known || value.dims.empty() || value.dims[0] >= 0) return false;
    if (name.empty()) name = value.dim_names[0];
    return !name.empty() && value.dim_names[0] == name;
  };
  return !model.inputs().empty() && std::ranges::all_of(model.inputs(), fits) &&
         std::ranges::all_of(model.outputs(), fits) && says_batch(name);
}

template <typename Tensor>
void complete_tensor(Tensor& tensor, const ValueDescription& value, bool batched) {
  require(tensor.data_type() == inference::TYPE_INVALID || type_of_config(tensor.data_type()) == value.dtype,
          ErrorKind::invalid_argument, "the configuration says that '{}' is {}, but the model's is {}", value.name,
          inference::DataType_Name(tensor.data_type()), value.type);
  tensor.set_data_type(config_type(value.dtype));
  if (tensor.dims_size() > 0) return;
  for (std::size_t i = batched ? 1 : 0; i < value.dims.size(); ++i) tensor.add_dims(value.dims[i]);
}

template <typename Tensors>
void complete_tensors(Tensors& tensors, const std::vector<ValueDescription>& values, bool batched, const char* what) {
  for (const auto& tensor : tensors) {
    require(std::ranges::find(values, tensor.name(), &ValueDescription::name) != values.end(),
            ErrorKind::invalid_argument, "the configuration has the {} '{}', which the model has not", what,
            tensor.name());
  }
  for (const ValueDescription& value : values) {
    const auto found = std::ranges::find_if(tensors, [&](const auto& tensor) { return tensor.name() == value.name; });
    auto& tensor = found != tensors.end() ? *found : *tensors.Add();
    tensor.set_name(value.name);
    complete_tensor(tensor, value, batched);
  }
}

}  // namespace

std::int64_t ModelSettings::delay_ns() const {
  return static_cast<std::int64_t>(
             std::min<std::uint64_t>(config.dynamic_batching().max_queue_delay_microseconds(), 10'000'000)) *
         1000;
}

std::int64_t ModelSettings::queue_limit() const {
  const std::int64_t given = config.dynamic_batching().default_queue_policy().max_queue_size();
  return given > 0 ? given : kUsualQueue;
}

int ModelSettings::instances() const {
  int count = 0;
  for (const inference::ModelInstanceGroup& group : config.instance_group()) count += std::max(group.count(), 1);
  return std::clamp(count, 1, kMostInstances);
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

ModelSettings parse_pbtxt(const std::string& text, const std::string& where) {
  ModelSettings settings;
  google::protobuf::TextFormat::Parser parser;
  FirstMistake mistake;
  parser.RecordErrorsTo(&mistake);
  parser.AllowUnknownField(true);
  parser.SetRecursionLimit(32);
  require(parser.ParseFromString(text, &settings.config), ErrorKind::invalid_argument, "{}: {}", where, mistake.text);
  settings.batching_is_given = settings.config.max_batch_size() > 0 || text.find("max_batch_size") != std::string::npos;
  read_parameters(settings, where);
  check(settings, where);
  return settings;
}

ModelSettings parse_model_toml(const std::string& text, const std::string& where) {
  io::TomlTable table = io::TomlTable::parse(text, where);
  ModelSettings settings;
  inference::ModelConfig& config = settings.config;
  settings.batching_is_given = table.has("max_batch_size");
  config.set_max_batch_size(static_cast<std::int32_t>(
      within(static_cast<double>(table.whole("max_batch_size", 0)), kMostBatch, "max_batch_size", where)));
  settings.priority = priority_of(table.text("priority", "standard"), where);
  settings.weight = table.number("weight", 1);
  settings.goal_ns = goal_ns_of(table.number("goal_ms", 0), where);
  settings.memory_limit_bytes = bytes_of(static_cast<double>(table.whole("memory_limit_mib", 0)), where);
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
        static_cast<std::uint64_t>(within(batching.number("delay_us", 0), kMostDelayUs, "delay_us", where)));
    for (const double size : batching.numbers("preferred"))
      dynamic.add_preferred_batch_size(static_cast<std::int32_t>(within(size, kMostBatch, "preferred", where)));
    dynamic.mutable_default_queue_policy()->set_max_queue_size(static_cast<std::uint32_t>(
        within(static_cast<double>(batching.whole("queue", 0)), kMostQueue, "queue", where)));
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
  if (settings.shares.empty() || table.has("versions"))
    config.mutable_version_policy()->mutable_latest()->set_num_versions(
        static_cast<std::uint32_t>(std::clamp<std::int64_t>(table.whole("versions", 1), 1, 1000)));
  io::TomlTable warm_ups = table.table("warmup");
  for (const std::string& name : warm_ups.tables())
    read_warm_up(name, warm_ups.table(name), *config.add_model_warmup());
  if (table.has("sequence")) read_sequence(table.table("sequence"), *config.mutable_sequence_batching());
  if (table.boolean("cache", false)) config.mutable_response_cache()->set_enable(true);
  table.check_all_read();
  check(settings, where);
  return settings;
}

ModelSettings read_model_settings(const std::filesystem::path& folder, const std::string& name) {
  ModelSettings settings;
  if (std::filesystem::exists(folder / "config.pbtxt"))
    settings = parse_pbtxt(read_text(folder, "config.pbtxt"), name + "/config.pbtxt");
  else if (std::filesystem::exists(folder / "config.toml"))
    settings = parse_model_toml(read_text(folder, "config.toml"), name + "/config.toml");
  require(settings.config.name().empty() || settings.config.name() == name, ErrorKind::invalid_argument,
          "the configuration in the folder '{}' is of a model named '{}'", name, settings.config.name());
  settings.config.set_name(name);
  return settings;
}

void complete_settings(ModelSettings& settings, const Model& model) {
  inference::ModelConfig& config = settings.config;
  if (!settings.batching_is_given && has_batch(model)) {
    config.set_max_batch_size(kUsualBatch);
    if (!config.has_dynamic_batching()) config.mutable_dynamic_batching();
  }
  const bool batched = config.max_batch_size() > 0;
  for (const auto* values : {&model.inputs(), &model.outputs()}) {
    for (const ValueDescription& value : *values) {
      require(value.dtype != DType::undefined && !datatype_name(value.dtype).empty(), ErrorKind::unsupported,
              "'{}' is {}, which the protocol cannot carry", value.name, value.type);
      require(!batched || !value.rank_known || (!value.dims.empty() && value.dims[0] < 0), ErrorKind::invalid_argument,
              "max_batch_size is {}, but '{}' is {}: its first dimension must be open", config.max_batch_size(),
              value.name, value.type);
    }
  }
  complete_tensors(*config.mutable_input(), model.inputs(), batched, "input");
  complete_tensors(*config.mutable_output(), model.outputs(), batched, "output");
  if (config.platform().empty() && config.backend().empty()) config.set_platform("onnxruntime_onnx");
  if (config.backend().empty()) config.set_backend("onnxruntime");
  if (config.default_model_filename().empty()) config.set_default_model_filename("model.onnx");
  if (config.instance_group_size() == 0) {
    inference::ModelInstanceGroup& group = *config.add_instance_group();
    group.set_kind(inference::ModelInstanceGroup::KIND_CPU);
    group.set_count(1);
  }
}

}  // namespace tessera::serve
