#include "serve/http/api_json.h"

#include <google/protobuf/util/json_util.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "serve/core/operations/log.h"
#include "serve/protocol/datatype.h"
#include "serve/protocol/failure.h"
#include "tessera/error.h"
#include "tessera/version.h"

namespace tessera::serve {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json tensors_json(const std::vector<TensorInfo>& infos) {
  Json tensors = Json::array();
  for (const TensorInfo& info : infos)
    tensors.push_back({{"name", info.name}, {"datatype", datatype_name(info.dtype)}, {"shape", info.shape}});
  return tensors;
}

Json duration(const DurationSum& sum) {
  return {{"count", sum.count}, {"ns", sum.ns}};
}

template <typename Tensors>
Json config_tensors(const Tensors& tensors, bool outputs) {
  Json list = Json::array();
  for (const auto& tensor : tensors) {
    Json entry = {{"name", tensor.name()},
                  {"data_type", inference::DataType_Name(tensor.data_type())},
                  {"dims", std::vector<std::int64_t>(tensor.dims().begin(), tensor.dims().end())}};
    if (tensor.has_reshape())
      entry["reshape"] = {
          {"shape", std::vector<std::int64_t>(tensor.reshape().shape().begin(), tensor.reshape().shape().end())}};
    if constexpr (requires { tensor.label_filename(); }) entry["label_filename"] = tensor.label_filename();
    if constexpr (requires { tensor.format(); }) {
      entry["format"] = inference::ModelInput::Format_Name(tensor.format());
      entry["optional"] = tensor.optional();
    }
    list.push_back(std::move(entry));
  }
  return list;
}

Json ensemble_json(const inference::ModelEnsembling& ensemble) {
  Json steps = Json::array();
  for (const auto& step : ensemble.step())
    steps.push_back(
        {{"model_name", step.model_name()},
         {"model_version", step.model_version() == 0 ? -1 : step.model_version()},
         {"input_map", std::map<std::string, std::string>(step.input_map().begin(), step.input_map().end())},
         {"output_map", std::map<std::string, std::string>(step.output_map().begin(), step.output_map().end())}});
  return {{"step", steps}};
}

// Protobuf's JSON has numbers of 64 bits as texts; clients of Triton expect numbers.
void make_numbers(Json& json) {
  for (const char* key : {"dims", "max_sequence_idle_microseconds", "max_queue_delay_microseconds"}) {
    if (!json.is_object() || !json.contains(key)) continue;
    Json& value = json[key];
    if (value.is_string()) value = std::stoull(value.get<std::string>());
    for (Json& size : value) {
      if (size.is_string()) size = std::stoll(size.get<std::string>());
    }
  }
  for (Json& child : json) {
    if (child.is_structured()) make_numbers(child);
  }
}

Json message_json(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(message, &text, options).ok()) return Json::object();
  Json json = Json::parse(text, nullptr, false);
  make_numbers(json);
  return json;
}

Json batching_json(const inference::ModelDynamicBatching& batching) {
  return {{"preferred_batch_size",
           std::vector<std::int32_t>(batching.preferred_batch_size().begin(), batching.preferred_batch_size().end())},
          {"max_queue_delay_microseconds", batching.max_queue_delay_microseconds()},
          {"preserve_ordering", batching.preserve_ordering()},
          {"priority_levels", batching.priority_levels()},
          {"default_priority_level", batching.default_priority_level()},
          {"default_queue_policy",
           {{"default_timeout_microseconds", batching.default_queue_policy().default_timeout_microseconds()},
            {"max_queue_size", batching.default_queue_policy().max_queue_size()}}}};
}

Json version_policy_json(const inference::ModelVersionPolicy& policy) {
  if (policy.has_all()) return {{"all", Json::object()}};
  if (policy.has_specific())
    return {{"specific",
             {{"versions",
               std::vector<std::int64_t>(policy.specific().versions().begin(), policy.specific().versions().end())}}}};
  return {{"latest", {{"num_versions", std::max<std::uint32_t>(policy.latest().num_versions(), 1)}}}};
}

constexpr std::size_t kMostConfigBytes = 1 << 20;  // of a request with a model's configuration

// Throws Failure(bad_request).
Json parse(std::string_view body, std::size_t most_bytes = 64 << 10) {
  if (body.empty()) return Json::object();
  if (body.size() > most_bytes) throw Failure(Reason::too_large, "the body is too large");
  int depth = 0;
  bool deep = false;
  const Json json = Json::parse(
      body,
      [&](int at, Json::parse_event_t, Json&) {
        depth = at;
        deep = deep || at > 16;
        return !deep;
      },
      false);
  if (deep || json.is_discarded() || !json.is_object())
    throw Failure(Reason::bad_request, "the body is no JSON object");
  return json;
}

Json model_status(const Servable& servable) {
  const ServableInfo& info = servable.info();
  const StatisticsSnapshot statistics = servable.statistics();
  Json json = {{"name", info.name},
               {"version", info.version},
               {"max_batch_size", info.settings.config.max_batch_size()},
               {"success", statistics.success.count},
               {"fail", statistics.fail.count},
               {"inferences", statistics.inferences},
               {"executions", statistics.executions},
               {"waiting", statistics.waiting},
               {"running", statistics.running},
               {"p50_ms", static_cast<double>(statistics.p50_ns) * 1e-6},
               {"p99_ms", static_cast<double>(statistics.p99_ns) * 1e-6},
               {"queue_ms", statistics.queue.count > 0 ? static_cast<double>(statistics.queue.ns) * 1e-6 /
                                                             static_cast<double>(statistics.queue.count)
                                                       : 0.0},
               {"memory_bytes", servable.memory_bytes()}};
  if (const std::optional<JobReport> report = servable.job()) {
    const JobReport& job = *report;
    constexpr std::array<const char*, 3> kClasses{"background", "standard", "realtime"};
    json["class"] = kClasses[static_cast<std::size_t>(job.priority)];
    json["device_s"] = static_cast<double>(job.device_ns) * 1e-9;
    json["prediction_error"] = job.prediction_error;
  } else json["class"] = "ensemble";
  return json;
}

// Times before now and lengths in milliseconds: a bar is [start, length, busy, runs, rows].
Json timeline_json(const RunTimeline& timeline) {
  constexpr std::int64_t kWindow_ns = 10'000'000'000, kResolution_ns = kWindow_ns / 500;
  const std::int64_t now_ns = Clock::steady().now_ns();
  const auto ms = [](std::int64_t ns) { return static_cast<double>(ns / 1000) * 1e-3; };
  Json lanes = Json::array();
  for (const TimelineLane& lane : timeline.since(now_ns - kWindow_ns, kResolution_ns)) {
    Json bars = Json::array();
    for (const TimelineBar& bar : lane.bars)
      bars.push_back({ms(now_ns - bar.start_ns), ms(bar.end_ns - bar.start_ns), ms(bar.busy_ns), bar.runs, bar.rows});
    lanes.push_back({{"model", lane.model}, {"lane", lane.lane}, {"bars", bars}});
  }
  return {{"window_ms", ms(kWindow_ns)}, {"lanes", lanes}};
}

}  // namespace

std::string server_metadata_json() {
  return text_of({{"name", "tessera"}, {"version", TESSERA_VERSION}, {"extensions", extensions()}});
}

std::string model_metadata_json(const ServableInfo& info, const std::vector<std::string>& versions) {
  return text_of({{"name", info.name},
                  {"versions", versions},
                  {"platform", info.platform},
                  {"inputs", tensors_json(info.inputs)},
                  {"outputs", tensors_json(info.outputs)}});
}

std::string model_config_json(const ServableInfo& info) {
  const inference::ModelConfig& config = info.settings.config;
  Json json = {{"name", config.name()},
               {"platform", config.platform()},
               {"backend", config.backend()},
               {"version_policy", version_policy_json(config.version_policy())},
               {"max_batch_size", config.max_batch_size()},
               {"input", config_tensors(config.input(), false)},
               {"output", config_tensors(config.output(), true)}};
  Json groups = Json::array();
  for (const auto& group : config.instance_group())
    groups.push_back({{"name", group.name()},
                      {"kind", inference::ModelInstanceGroup::Kind_Name(group.kind())},
                      {"count", group.count()}});
  json["instance_group"] = groups;
  json["default_model_filename"] = config.default_model_filename();
  Json parameters = Json::object();
  for (const auto& [key, value] : config.parameters()) parameters[key] = {{"string_value", value.string_value()}};
  json["parameters"] = parameters;
  if (config.has_dynamic_batching()) json["dynamic_batching"] = batching_json(config.dynamic_batching());
  if (config.has_ensemble_scheduling()) json["ensemble_scheduling"] = ensemble_json(config.ensemble_scheduling());
  if (config.has_sequence_batching()) json["sequence_batching"] = message_json(config.sequence_batching());
  Json warm_ups = Json::array();
  for (const auto& warm_up : config.model_warmup()) warm_ups.push_back(message_json(warm_up));
  json["model_warmup"] = warm_ups;
  json["response_cache"] = {{"enable", config.response_cache().enable()}};
  json["model_transaction_policy"] = {{"decoupled", false}};
  return text_of(json);
}

std::string statistics_json(const std::vector<std::shared_ptr<Servable>>& models) {
  Json list = Json::array();
  for (const std::shared_ptr<Servable>& servable : models) {
    const StatisticsSnapshot s = servable->statistics();
    Json batches = Json::array();
    for (const auto& [rows, batch] : s.batches)
      batches.push_back({{"batch_size", rows},
                         {"compute_input", duration(batch.input)},
                         {"compute_infer", duration(batch.infer)},
                         {"compute_output", duration(batch.output)}});
    list.push_back({{"name", servable->info().name},
                    {"version", servable->info().version},
                    {"last_inference", s.last_inference_ms},
                    {"inference_count", s.inferences},
                    {"execution_count", s.executions},
                    {"inference_stats",
                     {{"success", duration(s.success)},
                      {"fail", duration(s.fail)},
                      {"queue", duration(s.queue)},
                      {"compute_input", duration(s.input)},
                      {"compute_infer", duration(s.infer)},
                      {"compute_output", duration(s.output)},
                      {"cache_hit", duration(s.cache_hit)},
                      {"cache_miss", duration(s.cache_miss)}}},
                    {"batch_stats", batches}});
  }
  return text_of({{"model_stats", list}});
}

std::string index_json(const std::vector<ModelState>& states, bool ready_only) {
  Json list = Json::array();
  for (const ModelState& state : states) {
    if (ready_only && state.state != "READY") continue;
    Json entry = {{"name", state.name}};
    if (!state.version.empty()) entry["version"] = state.version;
    if (!state.state.empty()) entry["state"] = state.state;
    if (!state.reason.empty()) entry["reason"] = state.reason;
    list.push_back(std::move(entry));
  }
  return text_of(list);
}

std::string regions_json(const std::vector<Region>& regions) {
  Json list = Json::array();
  for (const Region& region : regions)
    list.push_back(
        {{"name", region.name}, {"key", region.key}, {"offset", region.offset}, {"byte_size", region.byte_size}});
  return text_of(list);
}

std::string status_json(const std::vector<std::shared_ptr<Servable>>& models, const std::vector<ModelState>& states,
                        const ServerCounters& counters, bool is_ready, const RunTimeline& timeline) {
  Json list = Json::array();
  for (const std::shared_ptr<Servable>& servable : models) list.push_back(model_status(*servable));
  Json missing = Json::array();
  for (const ModelState& state : states) {
    if (state.state == "UNAVAILABLE") missing.push_back({{"name", state.name}, {"reason", state.reason}});
  }
  return text_of({{"version", TESSERA_VERSION},
                  {"ready", is_ready},
                  {"uptime_s", counters.uptime_s},
                  {"connections", counters.connections},
                  {"http_requests", counters.http_requests},
                  {"grpc_requests", counters.grpc_requests},
                  {"refused_callers", counters.refused_callers},
                  {"resident_bytes", resident_bytes()},
                  {"timeline", timeline_json(timeline)},
                  {"models", list},
                  {"unavailable", missing}});
}

std::string shares_json(const std::map<std::int64_t, double>& shares) {
  Json json = Json::object();
  for (const auto& [version, share] : shares) json[std::to_string(version)] = share;
  return text_of(json);
}

std::map<std::int64_t, double> parse_shares(std::string_view body) {
  std::map<std::int64_t, double> shares;
  const Json json = parse(body);
  for (const auto& [key, value] : json.items()) {
    std::int64_t version = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), version);
    if (error != std::errc() || end != key.data() + key.size() || !value.is_number())
      throw Failure(Reason::bad_request, "expected numbers by versions, as in {\"1\": 0.9, \"2\": 0.1}");
    shares[version] = value.get<double>();
  }
  return shares;
}

Region parse_region(const std::string& name, std::string_view body) {
  const Json json = parse(body);
  const auto number = [&](const char* key) -> std::int64_t {
    if (!json.contains(key)) return 0;
    if (!json[key].is_number_integer() || json[key].get<double>() > 9e18)
      throw Failure(Reason::bad_request, fmt::format("'{}' is not a whole number", key));
    return json[key].get<std::int64_t>();
  };
  if (!json.contains("key") || !json["key"].is_string()) throw Failure(Reason::bad_request, "'key' is missing");
  return {name, json["key"].get<std::string>(), number("offset"), number("byte_size")};
}

bool parse_ready_only(std::string_view body) {
  const Json json = parse(body);
  return json.contains("ready") && json["ready"].is_boolean() && json["ready"].get<bool>();
}

RepositoryParameters parse_repository_parameters(std::string_view body, bool load) {
  RepositoryParameters parameters;
  const Json json = parse(body, kMostConfigBytes);
  if (!json.contains("parameters")) return parameters;
  if (!json["parameters"].is_object()) throw Failure(Reason::bad_request, "'parameters' is no JSON object");
  for (const auto& [key, value] : json["parameters"].items()) {
    if (load && key == "config" && value.is_string()) parameters.config = value.get<std::string>();
    else if (!load && key == "unload_dependents" && value.is_boolean())
      parameters.unload_dependents = value.get<bool>();
    else refuse_repository_parameter(key, load);
  }
  return parameters;
}

std::string trace_settings_json() {
  return text_of({{"trace_level", {"OFF"}},
                  {"trace_rate", "1000"},
                  {"trace_count", "-1"},
                  {"log_frequency", "0"},
                  {"trace_file", ""},
                  {"trace_mode", "triton"}});
}

std::string log_settings_json(std::string_view body) {
  const Json json = parse(body);
  if (json.contains("log_verbose_level") && json["log_verbose_level"].is_number_integer())
    set_log_level(json["log_verbose_level"].get<std::int64_t>() > 0 ? "debug" : "info");
  return text_of({{"log_file", ""},
                  {"log_info", log_level() == "info" || log_level() == "debug"},
                  {"log_warning", true},
                  {"log_error", true},
                  {"log_verbose_level", log_level() == "debug" ? 1 : 0},
                  {"log_format", "default"}});
}

}  // namespace tessera::serve
