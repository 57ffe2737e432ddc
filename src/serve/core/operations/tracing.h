// Traces of requests for OpenTelemetry: what a request waited for and computed, as spans of one trace that may have
// begun in the client (W3C Trace Context, https://www.w3.org/TR/trace-context/).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace tessera::serve {

// Where a trace goes on: of the headers traceparent and tracestate.
struct TraceContext {
  std::string trace_id, span_id;  // 32 and 16 hexadecimal digits
  bool is_sampled = false;
  std::string state;
};

// No value for a header that is malformed, as the specification asks.
std::optional<TraceContext> parse_traceparent(std::string_view parent, std::string_view state);

struct Span {
  std::string trace_id, span_id, parent_id, state;
  std::string name, error;                // error "": it went well
  bool is_server = false;                 // the request's own span; others are internal
  std::int64_t start_ns = 0, end_ns = 0;  // of the steady clock
  std::vector<std::pair<std::string, std::string>> texts;
  std::vector<std::pair<std::string, std::int64_t>> numbers;
};

// The number that turns a reading of the steady clock into nanoseconds since 1970.
std::int64_t unix_offset_ns();

// The spans as an ExportTraceServiceRequest in OTLP's JSON encoding
// (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding).
std::string otlp_json(const std::vector<Span>& spans, const std::string& service);

struct TracingOptions {
  std::string endpoint;             // "https://collector.example:4318/v1/traces"; "": no traces
  double rate = 1;                  // part of the requests without a traceparent that are traced
  std::string service = "tessera";  // service.name
  bool uses_grpc = false;           // OTLP over gRPC instead of HTTP
};

struct TraceCounters {
  std::uint64_t sent = 0, lost = 0;  // spans
};

class RequestTrace;

// Thread-safe. Spans wait in a bounded queue for a thread that sends them: where the collector is slow or gone, spans
// are lost and nothing waits.
class Tracer {
 public:
  // Sends a body to the collector; throws std::exception when it did not take it.
  using Send = std::function<void(const std::string& body)>;
  using Encode = std::function<std::string(const std::vector<Span>& spans, const std::string& service)>;
  Tracer(TracingOptions options, Send send, Encode encode = otlp_json);
  // Sends what waits, for two seconds at most.
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // Null for a request that is not traced: one whose trace is not sampled, or most of those without one.
  std::shared_ptr<RequestTrace> begin(std::string_view parent, std::string_view state, std::string name,
                                      std::int64_t start_ns);
  void add(Span span);
  std::string new_id(int bytes);
  TraceCounters counters() const { return {sent_.load(), lost_.load()}; }

 private:
  void work();

  const TracingOptions options_;
  const Send send_;
  const Encode encode_;
  std::atomic<std::uint64_t> sent_{0}, lost_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  // The mutex guards all below but the thread.
  std::deque<Span> waiting_;
  std::mt19937_64 random_;
  double chance_ = 0;
  bool stops_ = false;
  std::int64_t stop_ns_ = 0;
  std::thread thread_;
};

// The spans of one request, or of one step of an ensemble within it. Thread-safe but for finish().
class RequestTrace {
 public:
  RequestTrace(Tracer& tracer, Span span) : tracer_(tracer), span_(std::move(span)) {}

  // A span within this one that is over. Returns its id, for spans within it.
  std::string add(std::string name, std::int64_t start_ns, std::int64_t end_ns,
                  std::vector<std::pair<std::string, std::int64_t>> numbers = {}, const std::string& parent_id = "");
  // A span within this one that goes on.
  std::shared_ptr<RequestTrace> begin(std::string name, std::int64_t start_ns);
  // Ends the span; called once. `error` is "" for one that went well.
  void finish(std::int64_t end_ns, const std::string& error,
              std::vector<std::pair<std::string, std::string>> texts = {});

 private:
  Span within(std::string name, std::int64_t start_ns, std::int64_t end_ns, const std::string& parent_id) const;

  Tracer& tracer_;
  Span span_;
};

}  // namespace tessera::serve
