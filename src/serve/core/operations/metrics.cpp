#include "serve/core/operations/metrics.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <iterator>

#include "serve/core/models/servable.h"

namespace tessera::serve {
namespace {

struct Measured {
  std::shared_ptr<Servable> servable;
  StatisticsSnapshot statistics;
  std::string labels;
  std::optional<double> share;  // where its versions have shares
};

// Backslash, quote and newline are escaped in values of labels.
std::string label(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') (escaped += '\\') += c;
    else if (c == '\n') escaped += "\\n";
    else escaped += c;
  }
  return escaped;
}

double microseconds(std::uint64_t ns) {
  return static_cast<double>(ns) * 1e-3;
}

std::string_view name_of(Reason reason) {
  switch (reason) {
    case Reason::bad_request:
      return "bad_request";
    case Reason::cancelled:
      return "cancelled";
    case Reason::unavailable:
      return "unavailable";
    case Reason::deadline_exceeded:
      return "deadline_exceeded";
    case Reason::internal:
      return "internal";
    default:
      return "other";
  }
}

class Text {
 public:
  void head(const char* name, const char* kind, const char* help) {
    fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, kind);
  }
  void line(std::string_view name, std::string_view labels, double value) {
    if (labels.empty()) fmt::format_to(std::back_inserter(text_), "{} {}\n", name, value);
    else fmt::format_to(std::back_inserter(text_), "{}{{{}}} {}\n", name, labels, value);
  }
  void family(const char* name, const char* kind, const char* help, const std::vector<Measured>& models,
              const std::function<double(const Measured&)>& value) {
    head(name, kind, help);
    for (const Measured& model : models) line(name, model.labels, value(model));
  }
  void single(const char* name, const char* kind, const char* help, double value) {
    head(name, kind, help);
    line(name, "", value);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void add_triton_families(Text& text, const std::vector<Measured>& models) {
  using M = const Measured&;
  text.family("nv_inference_request_success", "counter", "Successful inference requests", models,
              [](M m) { return static_cast<double>(m.statistics.success.count); });
  text.family("nv_inference_request_failure", "counter", "Failed inference requests", models,
              [](M m) { return static_cast<double>(m.statistics.fail.count); });
  text.family("nv_inference_count", "counter", "Inferences: rows of all requests", models,
              [](M m) { return static_cast<double>(m.statistics.inferences); });
  text.family("nv_inference_exec_count", "counter", "Executions of the model: batches", models,
              [](M m) { return static_cast<double>(m.statistics.executions); });
  text.family("nv_inference_request_duration_us", "counter", "Time of requests from arrival to answer", models,
              [](M m) { return microseconds(m.statistics.success.ns); });
  text.family("nv_inference_queue_duration_us", "counter", "Time that requests waited", models,
              [](M m) { return microseconds(m.statistics.queue.ns); });
  text.family("nv_inference_compute_input_duration_us", "counter", "Time to gather inputs", models,
              [](M m) { return microseconds(m.statistics.input.ns); });
  text.family("nv_inference_compute_infer_duration_us", "counter", "Time to run the model", models,
              [](M m) { return microseconds(m.statistics.infer.ns); });
  text.family("nv_inference_compute_output_duration_us", "counter", "Time to part outputs", models,
              [](M m) { return microseconds(m.statistics.output.ns); });
  text.family("nv_inference_pending_request_count", "gauge", "Requests that wait", models,
              [](M m) { return static_cast<double>(m.statistics.waiting); });
}

void add_latencies(Text& text, const std::vector<Measured>& models) {
  const std::string name = "tessera_request_latency_seconds";
  text.head(name.c_str(), "histogram", "Latency of successful requests from arrival to answer");
  for (const Measured& model : models) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < model.statistics.latencies.size(); ++i) {
      sum += model.statistics.latencies[i];
      const std::string bound = i < kLatencyBounds.size() ? fmt::format("{}", kLatencyBounds[i]) : "+Inf";
      text.line(name + "_bucket", fmt::format("{},le=\"{}\"", model.labels, bound), static_cast<double>(sum));
    }
    text.line(name + "_sum", model.labels, model.statistics.latency_sum_s);
    text.line(name + "_count", model.labels, static_cast<double>(sum));
  }
}

void add_cache_families(Text& text, const std::vector<Measured>& models, const CacheCounters& cache) {
  using M = const Measured&;
  text.family("nv_cache_num_hits_per_model", "counter", "Requests that the response cache answered", models,
              [](M m) { return static_cast<double>(m.statistics.cache_hit.count); });
  text.family("nv_cache_num_misses_per_model", "counter", "Requests that the response cache could not answer", models,
              [](M m) { return static_cast<double>(m.statistics.cache_miss.count); });
  text.family("nv_cache_hit_duration_per_model", "counter", "Microseconds to look up answers that were there", models,
              [](M m) { return microseconds(m.statistics.cache_hit.ns); });
  text.family("nv_cache_miss_duration_per_model", "counter", "Microseconds to look up and keep answers that were not",
              models, [](M m) { return microseconds(m.statistics.cache_miss.ns); });
  text.single("nv_cache_num_entries", "gauge", "Answers in the response cache", static_cast<double>(cache.entries));
  text.single("nv_cache_num_lookups", "counter", "Lookups of the response cache",
              static_cast<double>(cache.hits + cache.misses));
  text.single("nv_cache_num_hits", "counter", "Lookups that found an answer", static_cast<double>(cache.hits));
  text.single("nv_cache_num_misses", "counter", "Lookups that found none", static_cast<double>(cache.misses));
  text.single("nv_cache_num_evictions", "counter", "Answers that made way for others",
              static_cast<double>(cache.evictions));
  text.single("nv_cache_lookup_duration", "counter", "Microseconds of all lookups", microseconds(cache.lookup_ns));
  text.single("nv_cache_insertion_duration", "counter", "Microseconds of all insertions",
              microseconds(cache.insertion_ns));
  text.single("nv_cache_util", "gauge", "Part of the response cache's bytes that is used, 0 to 1",
              cache.most_bytes > 0 ? static_cast<double>(cache.bytes) / static_cast<double>(cache.most_bytes) : 0.0);
}

void add_own_families(Text& text, const std::vector<Measured>& models) {
  using M = const Measured&;
  text.family("tessera_model_memory_bytes", "gauge", "Memory of the model: weights, plans, runs in progress", models,
              [](M m) { return static_cast<double>(m.servable->memory_bytes()); });
  text.family("tessera_model_device_memory_bytes", "gauge", "Memory of the model on a device that has its own", models,
              [](M m) { return static_cast<double>(m.servable->device_memory_bytes()); });
  text.family("tessera_requests_running", "gauge", "Batches that compute", models,
              [](M m) { return static_cast<double>(m.statistics.running); });
  text.head("tessera_version_share", "gauge", "Part of the requests without a version that this version gets");
  for (const Measured& model : models) {
    if (model.share) text.line("tessera_version_share", model.labels, *model.share);
  }
  text.head("tessera_requests_refused_total", "counter", "Failed requests by their reason");
  for (const Measured& model : models) {
    for (const auto& [reason, count] : model.statistics.refused)
      text.line("tessera_requests_refused_total", fmt::format("{},reason=\"{}\"", model.labels, name_of(reason)),
                static_cast<double>(count));
  }
  text.head("tessera_device_seconds_total", "counter", "Time of the device that the model's job had");
  for (const Measured& model : models) {
    if (const std::optional<JobReport> job = model.servable->job())
      text.line("tessera_device_seconds_total", model.labels, static_cast<double>(job->device_ns) * 1e-9);
  }
}

}  // namespace

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

std::string metrics_text(const Repository& repository, const ServerCounters& counters) {
  std::vector<Measured> models;
  const auto shares = repository.all_shares();
  for (std::shared_ptr<Servable>& servable : repository.all()) {
    const ServableInfo& info = servable->info();
    std::string labels = fmt::format("model=\"{}\",version=\"{}\"", label(info.name), label(info.version));
    StatisticsSnapshot statistics = servable->statistics();
    std::optional<double> share;
    if (const auto found = shares.find(info.name); found != shares.end()) {
      share = 0;
      for (const auto& [version, part] : found->second) {
        if (std::to_string(version) == info.version) share = part;
      }
    }
    models.push_back({std::move(servable), std::move(statistics), std::move(labels), share});
  }
  Text text;
  add_triton_families(text, models);
  add_latencies(text, models);
  add_own_families(text, models);
  add_cache_families(text, models, repository.cache_counters());
  text.single("tessera_connections", "gauge", "Open HTTP connections", static_cast<double>(counters.connections));
  text.single("tessera_http_requests_total", "counter", "HTTP requests", static_cast<double>(counters.http_requests));
  text.single("tessera_grpc_requests_total", "counter", "gRPC requests", static_cast<double>(counters.grpc_requests));
  text.single("tessera_refused_callers_total", "counter", "Requests without the right token, certificate or role",
              static_cast<double>(counters.refused_callers));
  text.single("tessera_grpc_connections", "gauge", "Open gRPC connections",
              static_cast<double>(counters.grpc_connections));
  text.single("tessera_grpc_connections_refused_total", "counter", "gRPC connections that found no place",
              static_cast<double>(counters.refused_grpc_connections));
  text.head("tessera_requests_limited_total", "counter", "Requests beyond what a key or an IP address allows");
  text.line("tessera_requests_limited_total", "by=\"address\",key=\"\"",
            static_cast<double>(counters.limited_addresses));
  for (const auto& [key, count] : counters.limited_keys)
    text.line("tessera_requests_limited_total", fmt::format("by=\"key\",key=\"{}\"", label(key)),
              static_cast<double>(count));
  text.head("tessera_trace_spans_total", "counter", "Spans that were sent to the collector, and that were lost");
  text.line("tessera_trace_spans_total", "result=\"sent\"", static_cast<double>(counters.spans.sent));
  text.line("tessera_trace_spans_total", "result=\"lost\"", static_cast<double>(counters.spans.lost));
  text.single("process_resident_memory_bytes", "gauge", "Resident memory", static_cast<double>(resident_bytes()));
  text.single("tessera_uptime_seconds", "gauge", "Time since the start", counters.uptime_s);
  return text.take();
}

}  // namespace tessera::serve
