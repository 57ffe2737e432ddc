// The addresses of the HTTP server.
#pragma once

#include <memory>

#include "serve/core/service.h"
#include "serve/http/message.h"

namespace tessera::serve {

// Answers requests to the Open Inference Protocol and its extensions (/v2/…), and the status page (/).
class HttpApi {
 public:
  // Bodies are refused beyond `most_body_bytes` after decompression.
  HttpApi(Service& service, std::int64_t most_body_bytes);
  ~HttpApi();

  // Throws nothing: what fails is answered.
  std::shared_ptr<Call> handle(HttpRequest request, Reply reply);
  // The same for the address of the metrics: /metrics and the status page alone.
  std::shared_ptr<Call> handle_metrics(HttpRequest request, Reply reply);

 private:
  struct Work;

  using Path = std::vector<std::string>;
  std::shared_ptr<Call> route(HttpRequest& request, const Path& path, const Reply& reply);
  std::shared_ptr<Call> infer(HttpRequest& request, const std::string& model, const std::string& version,
                              const Reply& reply);
  HttpResponse answer_model(const HttpRequest& request, const Path& path);
  HttpResponse answer_regions(const HttpRequest& request, const Path& path);
  void change_repository(const HttpRequest& request, const Path& path, const Reply& reply);
  HttpResponse answer_status(const HttpRequest& request);

  Service& service_;
  const std::int64_t most_body_bytes_;
  std::unique_ptr<Work> work_;  // loading takes long and has a thread of its own
};

}  // namespace tessera::serve
