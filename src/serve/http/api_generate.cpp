// Triton's generate extension: the answer to a generation at once (…/generate), or each step's as an event of its own
// while the next one is computed (…/generate_stream; https://html.spec.whatwg.org/multipage/server-sent-events.html).
#include <fmt/format.h>

#include <map>

#include "serve/http/api.h"
#include "serve/http/api_paths.h"
#include "serve/protocol/response_encoder.h"

namespace tessera::serve {
namespace {

constexpr std::size_t kMostCollectedBytes = 16 << 20;  // of all steps together, where they are answered at once

std::string begin_json(const InferenceResponse& answer) {
  const std::string id = answer.id.empty() ? "" : fmt::format("\"id\":{},", json_text(answer.id));
  return fmt::format("{{{}\"model_name\":{},\"model_version\":{}", id, json_text(answer.model),
                     json_text(answer.version));
}

std::string error_json(const Failure& failure) {
  return fmt::format("{{\"error\":{}}}", json_text(failure.what()));
}

// Each answer becomes an event. A failure before the first one has the status of its reason; a later one is the last
// event.
class EventSink final : public AnswerSink {
 public:
  explicit EventSink(Reply reply) : reply_(std::move(reply)) {}

  void put(InferenceResponse answer, Next next) override {
    std::string event;
    try {
      event = "data: " + begin_json(answer);
      for (const OutputTensor& output : answer.outputs) {
        event += fmt::format(",{}:", json_text(output.name));
        append_value(output, event);
      }
      event += "}\n\n";
    } catch (...) {
      failure_ = current_failure();
      return next(false);
    }
    if (!stream_) begin();
    stream_->write(std::move(event), std::move(next));
  }

  void end(std::optional<Failure> failure) override {
    if (failure_) failure = failure_;
    if (!stream_ && failure) return reply_(failure_response(*failure));
    if (!stream_) begin();
    if (failure) stream_->write(fmt::format("data: {}\n\n", error_json(*failure)), [](bool) {});
    stream_->end();
  }

 private:
  void begin() {
    stream_ = std::make_shared<ReplyStream>();
    HttpResponse response;
    response.content_type = "text/event-stream; charset=utf-8";
    response.headers.emplace_back("Cache-Control", "no-cache");
    response.stream = stream_;
    reply_(std::move(response));
  }

  const Reply reply_;
  std::shared_ptr<ReplyStream> stream_;
  std::optional<Failure> failure_;
};

// All answers become one: each output is the list of what the steps gave, or the value itself where there is one step
// by the model's rules.
class CollectingSink final : public AnswerSink {
 public:
  CollectingSink(Reply reply, bool has_steps) : reply_(std::move(reply)), has_steps_(has_steps) {}

  void put(InferenceResponse answer, Next next) override {
    try {
      if (head_.empty()) head_ = begin_json(answer);
      for (const OutputTensor& output : answer.outputs) {
        std::string& values = values_[output.name];
        const std::size_t before = values.size();
        if (!values.empty()) values += ',';
        append_value(output, values);
        bytes_ += values.size() - before;
      }
      if (bytes_ > kMostCollectedBytes)
        throw Failure(Reason::too_large, "the answers are larger than 16 MiB: ask for them at …/generate_stream");
    } catch (...) {
      failure_ = current_failure();
      return next(false);
    }
    next(true);
  }

  void end(std::optional<Failure> failure) override {
    if (failure_) failure = failure_;
    if (failure) return reply_(failure_response(*failure));
    HttpResponse response;
    response.body = std::move(head_);
    for (const auto& [name, values] : values_)
      response.body += fmt::format(",{}:{}{}{}", json_text(name), has_steps_ ? "[" : "", values, has_steps_ ? "]" : "");
    response.body += "}";
    reply_(std::move(response));
  }

 private:
  const Reply reply_;
  const bool has_steps_;
  std::string head_;
  std::map<std::string, std::string> values_;
  std::size_t bytes_ = 0;
  std::optional<Failure> failure_;
};

}  // namespace

std::shared_ptr<Call> HttpApi::generate(HttpRequest& request, const Path& path, const std::shared_ptr<Call>& call,
                                        const Reply& reply) {
  if (request.method != "POST") throw Failure(Reason::method, "this address takes POST only");
  const std::string& model = path[2];
  const std::string version = path.size() == 6 ? path[4] : "";
  service_.require_role(request.credentials, Role::infer, model);  // before anything is decoded for others
  const std::shared_ptr<Servable> servable = service_.find(model, version);
  const GenerationRules rules = generation_rules(servable->info());
  GenerateRequest asked = decode_generate(request.body.bytes, generate_fields(servable->info(), rules));
  asked.request.model = model;
  asked.request.version = version;
  request.body = {};
  std::shared_ptr<AnswerSink> sink;
  if (path.back() == "generate_stream") sink = std::make_shared<EventSink>(reply);
  else sink = std::make_shared<CollectingSink>(reply, !rules.feeds.empty());
  return service_.generate(request.credentials, std::move(asked), std::move(sink), call);
}

}  // namespace tessera::serve
