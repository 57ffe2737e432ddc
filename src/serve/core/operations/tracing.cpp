#include "serve/core/operations/tracing.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "serve/core/operations/log.h"
#include "tessera/clock.h"
#include "tessera/version.h"

namespace tessera::serve {
namespace {

constexpr std::size_t kMostWaiting = 8192, kMostSent = 512;  // spans
constexpr std::size_t kMostState = 512;                      // bytes of tracestate, as the specification asks
constexpr std::chrono::milliseconds kGather{200}, kBetweenTries{1000};
constexpr std::int64_t kMostFlush_ns = 2'000'000'000;

bool is_hex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_zero(std::string_view text) {
  return text.find_first_not_of('0') == std::string_view::npos;
}

using Json = nlohmann::ordered_json;

Json attribute(const std::string& key, const char* kind, const std::string& value) {
  return {{"key", key}, {"value", {{kind, value}}}};
}

Json span_json(const Span& span, std::int64_t offset_ns) {
  Json attributes = Json::array();
  for (const auto& [key, value] : span.texts) attributes.push_back(attribute(key, "stringValue", value));
  // Numbers of 64 bits are texts.
  for (const auto& [key, value] : span.numbers) attributes.push_back(attribute(key, "intValue", std::to_string(value)));
  Json json = {{"traceId", span.trace_id}, {"spanId", span.span_id}};
  if (!span.parent_id.empty()) json["parentSpanId"] = span.parent_id;
  if (!span.state.empty()) json["traceState"] = span.state;
  json["name"] = span.name;
  json["kind"] = span.is_server ? 2 : 1;  // SPAN_KIND_SERVER, SPAN_KIND_INTERNAL
  json["startTimeUnixNano"] = std::to_string(span.start_ns + offset_ns);
  json["endTimeUnixNano"] = std::to_string(span.end_ns + offset_ns);
  json["attributes"] = std::move(attributes);
  json["status"] = Json::object();
  if (!span.error.empty()) json["status"] = {{"code", 2}, {"message", span.error}};  // STATUS_CODE_ERROR
  return json;
}

// A generator with enough of the system's randomness that processes do not share ids.
std::mt19937_64 seeded() {
  std::random_device device;
  std::seed_seq seed{device(), device(), device(), device(), device(), device(), device(), device()};
  return std::mt19937_64(seed);
}

}  // namespace

std::int64_t unix_offset_ns() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count() - Clock::steady().now_ns();
}

std::optional<TraceContext> parse_traceparent(std::string_view parent, std::string_view state) {
  // version-traceid-spanid-flags; versions after 00 may have more behind it.
  constexpr std::size_t kLength = 55;
  if (parent.size() < kLength || parent[2] != '-' || parent[35] != '-' || parent[52] != '-') return std::nullopt;
  const std::string_view version = parent.substr(0, 2), trace = parent.substr(3, 32), span = parent.substr(36, 16),
                         flags = parent.substr(53, 2);
  if (!is_hex(version) || !is_hex(trace) || !is_hex(span) || !is_hex(flags)) return std::nullopt;
  if (version == "ff" || is_zero(trace) || is_zero(span)) return std::nullopt;
  if (parent.size() > kLength && (version == "00" || parent[kLength] != '-')) return std::nullopt;
  TraceContext context{std::string(trace), std::string(span),
                       ((flags[1] <= '9' ? flags[1] - '0' : flags[1] - 'a' + 10) & 1) != 0, ""};
  if (state.size() <= kMostState) context.state = state;
  return context;
}

std::string otlp_json(const std::vector<Span>& spans, const std::string& service) {
  const std::int64_t offset_ns = unix_offset_ns();
  Json list = Json::array();
  for (const Span& span : spans) list.push_back(span_json(span, offset_ns));
  const Json resource = {{"attributes", Json::array({attribute("service.name", "stringValue", service),
                                                     attribute("service.version", "stringValue", TESSERA_VERSION)})}};
  const Json scope = {{"scope", {{"name", "tessera.serve"}}}, {"spans", std::move(list)}};
  const Json json = {
      {"resourceSpans", Json::array({Json{{"resource", resource}, {"scopeSpans", Json::array({scope})}}})}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Tracer::Tracer(TracingOptions options, Send send, Encode encode)
    : options_(std::move(options)), send_(std::move(send)), encode_(std::move(encode)), random_(seeded()) {
  thread_ = std::thread([this] { work(); });
}

Tracer::~Tracer() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    stop_ns_ = Clock::steady().now_ns() + kMostFlush_ns;
  }
  changed_.notify_all();
  thread_.join();
}

std::string Tracer::new_id(int bytes) {
  const std::lock_guard lock(mutex_);
  std::string id;
  do {
    id.clear();
    for (int i = 0; i < bytes; i += 8) id += fmt::format("{:016x}", random_());
  } while (is_zero(id));
  return id;
}

std::shared_ptr<RequestTrace> Tracer::begin(std::string_view parent, std::string_view state, std::string name,
                                            std::int64_t start_ns) {
  Span span;
  const std::optional<TraceContext> context = parse_traceparent(parent, state);
  if (context) {
    if (!context->is_sampled) return nullptr;
    span.trace_id = context->trace_id;
    span.parent_id = context->span_id;
    span.state = context->state;
  } else {
    {
      const std::lock_guard lock(mutex_);
      chance_ += options_.rate;
      if (chance_ < 1) return nullptr;
      chance_ -= 1;
    }
    span.trace_id = new_id(16);
  }
  span.span_id = new_id(8);
  span.name = std::move(name);
  span.is_server = true;
  span.start_ns = start_ns;
  return std::make_shared<RequestTrace>(*this, std::move(span));
}

void Tracer::add(Span span) {
  std::size_t waiting = 0;
  {
    const std::lock_guard lock(mutex_);
    waiting = waiting_.size();
    if (waiting < kMostWaiting) waiting_.push_back(std::move(span));
  }
  if (waiting >= kMostWaiting) ++lost_;
  else if (waiting == 0 || waiting == kMostSent) changed_.notify_all();
}

void Tracer::work() {
  std::unique_lock lock(mutex_);
  bool was_lost = false;
  while (true) {
    changed_.wait(lock, [this] { return stops_ || !waiting_.empty(); });
    // A little later there is more to send at once.
    changed_.wait_for(lock, kGather, [this] { return stops_ || waiting_.size() >= kMostSent; });
    if (stops_ && (waiting_.empty() || Clock::steady().now_ns() >= stop_ns_)) break;
    std::vector<Span> spans;
    while (!waiting_.empty() && spans.size() < kMostSent) {
      spans.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    lock.unlock();
    bool sent = true;
    try {
      send_(encode_(spans, options_.service));
    } catch (const std::exception&) {
      // No request may suffer from it: it is counted, and the first of a row is logged.
      if (!was_lost) log_current_exception("the collector of traces takes no spans", {{"endpoint", options_.endpoint}});
      sent = false;
    }
    (sent ? sent_ : lost_) += spans.size();
    was_lost = !sent;
    lock.lock();
    if (!sent) changed_.wait_for(lock, kBetweenTries, [this] { return stops_; });
  }
  lost_ += waiting_.size();
}

Span RequestTrace::within(std::string name, std::int64_t start_ns, std::int64_t end_ns,
                          const std::string& parent_id) const {
  Span span;
  span.trace_id = span_.trace_id;
  span.span_id = tracer_.new_id(8);
  span.parent_id = parent_id.empty() ? span_.span_id : parent_id;
  span.state = span_.state;
  span.name = std::move(name);
  span.start_ns = start_ns;
  span.end_ns = end_ns;
  return span;
}

std::string RequestTrace::add(std::string name, std::int64_t start_ns, std::int64_t end_ns,
                              std::vector<std::pair<std::string, std::int64_t>> numbers, const std::string& parent_id) {
  Span span = within(std::move(name), start_ns, end_ns, parent_id);
  span.numbers = std::move(numbers);
  std::string id = span.span_id;
  tracer_.add(std::move(span));
  return id;
}

std::shared_ptr<RequestTrace> RequestTrace::begin(std::string name, std::int64_t start_ns) {
  return std::make_shared<RequestTrace>(tracer_, within(std::move(name), start_ns, start_ns, ""));
}

void RequestTrace::finish(std::int64_t end_ns, const std::string& error,
                          std::vector<std::pair<std::string, std::string>> texts) {
  Span span = span_;
  span.end_ns = end_ns;
  span.error = error;
  span.texts = std::move(texts);
  tracer_.add(std::move(span));
}

}  // namespace tessera::serve
