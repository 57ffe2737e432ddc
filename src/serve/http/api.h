// The addresses of the HTTP server.
#pragma once

#include <memory>

#include "serve/core/service.h"
#include "serve/http/message.h"
#include "serve/limits/task_queue.h"

namespace tessera::serve {

struct HttpApiOptions {
  std::int64_t most_body_bytes = std::int64_t{256} << 20;  // after decompression
  // Names that the field Host may hold beside those of the loopback, where is_loopback_only is set or this is not
  // empty; IP addresses always may: a web page of another site cannot make a browser send one.
  std::vector<std::string> hosts;
  bool is_loopback_only = false;
  std::vector<std::string>
      origins;  // of web pages that may ask, such as "https://example.org", beside the server's own
};

// Answers requests to the Open Inference Protocol and its extensions (/v2/…), and the status page (/).
class HttpApi final : public HttpHandler {
 public:
  HttpApi(Service& service, const HttpApiOptions& options);
  ~HttpApi() override;

  // Who asks, from where and for what is checked here, so that nobody else's body is read or decompressed.
  Admission admit(const HttpRequest& header) override;
  std::shared_ptr<Call> handle(HttpRequest request, Reply reply) override;

  // Admission at the address of the metrics: /metrics and the status page alone.
  Admission admit_metrics(const HttpRequest& header);
  std::shared_ptr<Call> handle_metrics(HttpRequest request, Reply reply);

 private:
  using Path = std::vector<std::string>;
  void check_sender(const HttpRequest& request, const Path& path) const;
  void check_role(const HttpRequest& request, const Path& path);
  // `call` becomes the inference, where the path asks for one.
  void decode_and_route(HttpRequest request, const Path& path, const std::shared_ptr<Call>& call, const Reply& reply);
  std::shared_ptr<Call> route(HttpRequest& request, const Path& path, const std::shared_ptr<Call>& call,
                              const Reply& reply);
  std::shared_ptr<Call> infer(HttpRequest& request, const std::string& model, const std::string& version,
                              const std::shared_ptr<Call>& call, const Reply& reply);
  std::shared_ptr<Call> generate(HttpRequest& request, const Path& path, const std::shared_ptr<Call>& call,
                                 const Reply& reply);
  HttpResponse answer_model(const HttpRequest& request, const Path& path);
  HttpResponse answer_regions(const HttpRequest& request, const Path& path);
  void change_repository(const HttpRequest& request, const Path& path, const Reply& reply);
  HttpResponse answer_status(const HttpRequest& request);

  Service& service_;
  const HttpApiOptions options_;
  // Threads for what takes long: loading models; decompressing bodies and parsing large ones.
  std::unique_ptr<TaskQueue> work_, decoding_;
};

// The handler of the address of the metrics.
class MetricsHandler final : public HttpHandler {
 public:
  explicit MetricsHandler(HttpApi& api) : api_(api) {}
  Admission admit(const HttpRequest& header) override { return api_.admit_metrics(header); }
  std::shared_ptr<Call> handle(HttpRequest request, Reply reply) override {
    return api_.handle_metrics(std::move(request), std::move(reply));
  }

 private:
  HttpApi& api_;
};

}  // namespace tessera::serve
