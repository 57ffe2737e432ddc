#include "serve/core/operations/tracing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "serve/http/client.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace tessera::serve::tracing_test {
namespace {

using Json = nlohmann::json;

constexpr const char* kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr const char* kParent = "00f067aa0ba902b7";

std::string traceparent(const std::string& flags = "01", const std::string& version = "00") {
  return version + "-" + kTrace + "-" + kParent + "-" + flags;
}

TEST(Traceparent, IsReadAsTheSpecificationSays) {
  const auto context = parse_traceparent(traceparent(), "vendor=1");
  ASSERT_TRUE(context.has_value());
  EXPECT_EQ(context->trace_id, kTrace);
  EXPECT_EQ(context->span_id, kParent);
  EXPECT_TRUE(context->is_sampled);
  EXPECT_EQ(context->state, "vendor=1");
  EXPECT_FALSE(parse_traceparent(traceparent("00"), "")->is_sampled);
  EXPECT_TRUE(parse_traceparent(traceparent("0b"), "")->is_sampled);
  EXPECT_TRUE(parse_traceparent(traceparent("01", "cc") + "-more", "").has_value());  // of a later version
  EXPECT_EQ(parse_traceparent(traceparent(), std::string(600, 'a'))->state, "");
}

TEST(Traceparent, MalformedOnesAreNone) {
  const std::string zeros = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
  for (const std::string& text :
       {std::string(), std::string("00"), traceparent() + "-more", traceparent("01", "ff"), traceparent("0g"), zeros,
        "00_" + traceparent().substr(3), std::string("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"),
        std::string("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01")})
    EXPECT_FALSE(parse_traceparent(text, "").has_value()) << text;
}

// Keeps what is sent.
class Collector {
 public:
  Tracer::Send send() {
    return [this](const std::string& body) {
      const std::lock_guard lock(mutex_);
      const Json json = Json::parse(body);
      for (const Json& span : json["resourceSpans"][0]["scopeSpans"][0]["spans"]) spans_.push_back(span);
      service_ = json["resourceSpans"][0]["resource"]["attributes"][0]["value"]["stringValue"];
    };
  }
  Json find(const std::string& name) const {
    const auto found = std::ranges::find_if(spans_, [&](const Json& span) { return span["name"] == name; });
    return found != spans_.end() ? *found : Json();
  }
  std::vector<Json> spans_;
  std::string service_;

 private:
  std::mutex mutex_;
};

TEST(Tracer, SpansOfARequestBelongToTheTraceOfItsClient) {
  Collector collector;
  {
    Tracer tracer({"", 0, "tests"}, collector.send());
    const auto trace = tracer.begin(traceparent(), "vendor=1", "infer m", 1000);
    ASSERT_NE(trace, nullptr);
    const std::string compute = trace->add("compute", 2000, 5000, {{"batch.rows", 4}});
    trace->add("compute infer", 3000, 4000, {}, compute);
    const auto step = trace->begin("step", 2000);
    step->add("queue", 2000, 2500);
    step->finish(4500, "it failed");
    trace->finish(6000, "", {{"model.name", "m \"1\""}});
  }
  EXPECT_EQ(collector.service_, "tests");
  ASSERT_EQ(collector.spans_.size(), 5u);
  const Json request = collector.find("infer m"), compute = collector.find("compute"), step = collector.find("step");
  EXPECT_EQ(request["traceId"], kTrace);
  EXPECT_EQ(request["parentSpanId"], kParent);
  EXPECT_EQ(request["traceState"], "vendor=1");
  EXPECT_EQ(request["kind"], 2);
  EXPECT_EQ(request["attributes"][0]["value"]["stringValue"], "m \"1\"");
  EXPECT_EQ(request["status"], Json::object());
  const auto time = [](const Json& span, const char* key) { return std::stoll(span[key].get<std::string>()); };
  EXPECT_EQ(time(request, "endTimeUnixNano") - time(request, "startTimeUnixNano"), 5000);
  EXPECT_GT(time(request, "startTimeUnixNano"), std::int64_t{1'600'000'000} * 1'000'000'000);
  EXPECT_EQ(compute["parentSpanId"], request["spanId"]);
  EXPECT_EQ(compute["attributes"][0]["value"]["intValue"], "4");
  EXPECT_EQ(collector.find("compute infer")["parentSpanId"], compute["spanId"]);
  EXPECT_EQ(collector.find("queue")["parentSpanId"], step["spanId"]);
  EXPECT_EQ(step["status"]["code"], 2);
  EXPECT_EQ(step["status"]["message"], "it failed");
}

TEST(Tracer, TracesTheRightPartOfTheRequests) {
  Collector collector;
  Tracer tracer({"", 0.25, "tests"}, collector.send());
  int traced = 0;
  std::set<std::string> ids;
  for (int i = 0; i < 100; ++i) traced += tracer.begin("", "", "infer m", 0) != nullptr;
  EXPECT_EQ(traced, 25);
  EXPECT_EQ(tracer.begin(traceparent("00"), "", "infer m", 0), nullptr);  // its client does not sample it
  EXPECT_NE(tracer.begin(traceparent("01"), "", "infer m", 0), nullptr);
  for (int i = 0; i < 100; ++i) ids.insert(tracer.new_id(16));
  EXPECT_EQ(ids.size(), 100u);
  EXPECT_THAT(*ids.begin(), testing::SizeIs(32));
}

TEST(Tracer, ADeadCollectorLosesSpansAndHoldsNobodyUp) {
  std::atomic<int> tries{0};
  Tracer tracer({"", 1, "tests"}, [&](const std::string&) {
    ++tries;
    throw std::runtime_error("connection refused");
  });
  const auto trace = tracer.begin("", "", "infer m", 0);
  for (int i = 0; i < 20'000; ++i) trace->add("queue", 0, 1);
  while (tries == 0) std::this_thread::yield();
  while (tracer.counters().lost < 20'000 - 8192) std::this_thread::yield();
  EXPECT_EQ(tracer.counters().sent, 0u);
}

TEST(HttpEndpoint, IsReadFromItsAddress) {
  const HttpEndpoint usual = parse_http_endpoint("http://127.0.0.1:4318/v1/traces");
  EXPECT_EQ(usual.host + "|" + usual.port + "|" + usual.path, "127.0.0.1|4318|/v1/traces");
  const HttpEndpoint six = parse_http_endpoint("http://[::1]:80");
  EXPECT_EQ(six.host + "|" + six.port + "|" + six.path, "::1|80|/");
  EXPECT_EQ(parse_http_endpoint("http://collector/x").port, "80");
  EXPECT_FALSE(usual.is_tls);
  const HttpEndpoint safe = parse_http_endpoint("https://collector.example/v1/traces");
  EXPECT_EQ(safe.host + "|" + safe.port + "|" + safe.path, "collector.example|443|/v1/traces");
  EXPECT_TRUE(safe.is_tls);
  for (const char* url : {"ftp://a/", "a:1", "http://", "https://", "http://a:b/", "http://name:secret@a/", "",
                          "http://a/b c", "http://a/\r\nX: y", "https://a?b"})
    test::expect_error_containing(ErrorKind::invalid_argument, "expected http://", [&] { parse_http_endpoint(url); });
}

TEST(HttpClient, RefusesWhatItCannotSend) {
  const auto expect = [](const HttpClientOptions& options, const char* text) {
    const HttpEndpoint endpoint = parse_http_endpoint("https://127.0.0.1/");
    test::expect_error_containing(ErrorKind::invalid_argument, text, [&] { HttpClient(endpoint, options); });
  };
  expect({.headers = {{"a b", "c"}}}, "none of HTTP");
  expect({.headers = {{"", "c"}}}, "none of HTTP");
  expect({.headers = {{"Content-length", "7"}}}, "set by the client itself");
  expect({.headers = {{"x", "a\r\ny: b"}}}, "the header x has control characters");
  expect({.certificate = "a.pem"}, "needed together");
  const test::TemporaryFolder folder;
  const std::string file = (folder / "token").string();
  std::ofstream(file) << "\n";
  expect({.token_file = file}, "holds no token");
  std::ofstream(file) << "a\nb\n";
  expect({.token_file = file}, "has control characters");
  expect({.authorities = file}, "the file of authorities");
}

}  // namespace
}  // namespace tessera::serve::tracing_test
