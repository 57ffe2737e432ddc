#include "serve/grpc/trace_client.h"

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <otlp.pb.h>

#include <algorithm>
#include <chrono>
#include <future>

#include "base/error.h"
#include "base/text.h"
#include "io/file.h"
#include "serve/core/operations/log.h"
#include "serve/grpc/messages.h"
#include "tessera/clock.h"
#include "tessera/version.h"

namespace tessera::serve {
namespace {

constexpr const char* kMethod = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
constexpr std::int64_t kMostFileBytes = 1 << 20, kReadAgain_ns = 60'000'000'000;
constexpr int kServer = 2, kInternal = 1, kError = 2;  // SPAN_KIND_SERVER, SPAN_KIND_INTERNAL, STATUS_CODE_ERROR

std::string read_text(const std::string& path) {
  if (path.empty()) return {};
  const std::vector<std::byte> bytes = io::read_file(path, kMostFileBytes);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string bytes_of_hex(const std::string& digits) {
  const auto value = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(value(digits[i]) * 16 + value(digits[i + 1]));
  return bytes;
}

void add_text(const std::string& key, const std::string& value,
              google::protobuf::RepeatedPtrField<otlp::KeyValue>& attributes) {
  otlp::KeyValue& attribute = *attributes.Add();
  attribute.set_key(key);
  attribute.mutable_value()->set_string_value(base::printable(value));
}

void fill(const Span& span, std::int64_t offset_ns, otlp::Span& message) {
  message.set_trace_id(bytes_of_hex(span.trace_id));
  message.set_span_id(bytes_of_hex(span.span_id));
  message.set_parent_span_id(bytes_of_hex(span.parent_id));
  message.set_trace_state(base::printable(span.state));
  message.set_name(base::printable(span.name));
  message.set_kind(span.is_server ? kServer : kInternal);
  message.set_start_time_unix_nano(static_cast<std::uint64_t>(span.start_ns + offset_ns));
  message.set_end_time_unix_nano(static_cast<std::uint64_t>(span.end_ns + offset_ns));
  for (const auto& [key, value] : span.texts) add_text(key, value, *message.mutable_attributes());
  for (const auto& [key, value] : span.numbers) {
    otlp::KeyValue& attribute = *message.add_attributes();
    attribute.set_key(key);
    attribute.mutable_value()->set_int_value(value);
  }
  if (span.error.empty()) return;
  message.mutable_status()->set_code(kError);
  message.mutable_status()->set_message(base::printable(span.error));
}

}  // namespace

std::string otlp_protobuf(const std::vector<Span>& spans, const std::string& service) {
  otlp::ExportRequest request;
  otlp::ResourceSpans& all = *request.add_resource_spans();
  add_text("service.name", service, *all.mutable_resource()->mutable_attributes());
  add_text("service.version", TESSERA_VERSION, *all.mutable_resource()->mutable_attributes());
  otlp::ScopeSpans& scope = *all.add_scope_spans();
  scope.mutable_scope()->set_name("tessera.serve");
  const std::int64_t offset_ns = unix_offset_ns();
  for (const Span& span : spans) fill(span, offset_ns, *scope.add_spans());
  return request.SerializeAsString();
}

struct GrpcTraceClient::Connection {
  std::string authorities, certificate, key;  // what the files held
  std::string token;
  std::shared_ptr<grpc::Channel> channel;
};

std::unique_ptr<GrpcTraceClient::Connection> GrpcTraceClient::connect(const HttpEndpoint& endpoint,
                                                                      const HttpClientOptions& options) {
  auto made = std::make_unique<Connection>();
  made->authorities = read_text(options.authorities);
  made->certificate = read_text(options.certificate);
  made->key = read_text(options.key);
  made->token = read_text(options.token_file);
  while (!made->token.empty() && (made->token.back() == '\n' || made->token.back() == '\r')) made->token.pop_back();
  const bool is_six = endpoint.host.find(':') != std::string::npos;
  const std::string target = (is_six ? "[" + endpoint.host + "]" : endpoint.host) + ":" + endpoint.port;
  made->channel = grpc::CreateChannel(
      target, endpoint.is_tls ? grpc::SslCredentials({made->authorities, made->key, made->certificate})
                              : grpc::InsecureChannelCredentials());
  return made;
}

GrpcTraceClient::GrpcTraceClient(HttpEndpoint endpoint, HttpClientOptions options)
    : endpoint_(std::move(endpoint)),
      options_(std::move(options)),
      connection_(connect(endpoint_, options_)),
      read_ns_(Clock::steady().now_ns()) {}

GrpcTraceClient::~GrpcTraceClient() = default;

void GrpcTraceClient::send(const std::string& spans, double seconds) {
  if (Clock::steady().now_ns() - read_ns_ > kReadAgain_ns) {
    read_ns_ = Clock::steady().now_ns();
    try {
      connection_ = connect(endpoint_, options_);
    } catch (const Error&) {
      log_current_exception("the files for the collector of traces could not be read");
    }
  }
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000)));
  if (!connection_->token.empty()) context.AddMetadata("authorization", "Bearer " + connection_->token);
  for (const auto& [name, value] : options_.headers) {
    std::string lower = name;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    context.AddMetadata(lower, value);
  }
  const grpc::ByteBuffer request = to_buffer(spans);
  ReceivedMessage answer;
  std::promise<grpc::Status> ended;
  grpc::GenericStub(connection_->channel)
      .UnaryCall(&context, kMethod, {}, &request, &answer.buffer(),
                 [&ended](grpc::Status status) { ended.set_value(std::move(status)); });
  const grpc::Status status = ended.get_future().get();
  require(status.ok(), ErrorKind::io, "it answers with the status {}: {}", static_cast<int>(status.error_code()),
          status.error_message());
  otlp::ExportResponse response;
  answer.parse(response);
  const std::int64_t rejected = response.partial_success().rejected_spans();
  require(rejected == 0, ErrorKind::io, "it has rejected {} spans: {}", rejected,
          response.partial_success().error_message());
}

}  // namespace tessera::serve
