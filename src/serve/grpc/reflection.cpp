#include "serve/grpc/reflection.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <health.pb.h>
#include <inference.pb.h>
#include <reflection.pb.h>

#include <set>
#include <vector>

namespace tessera::serve {
namespace {

using google::protobuf::FileDescriptor;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

const google::protobuf::DescriptorPool& pool() {
  return *google::protobuf::DescriptorPool::generated_pool();
}

// The files that what the server offers is described in; others of the process are nobody's business.
bool is_offered(const FileDescriptor& file) {
  static const std::set<const FileDescriptor*> offered = [] {
    std::set<const FileDescriptor*> files;
    std::vector<const FileDescriptor*> left{inference::ModelInferRequest::descriptor()->file(),
                                            grpc::health::v1::HealthCheckRequest::descriptor()->file(),
                                            ServerReflectionRequest::descriptor()->file()};
    while (!left.empty()) {
      const FileDescriptor* const next = left.back();
      left.pop_back();
      if (!files.insert(next).second) continue;
      for (int i = 0; i < next->dependency_count(); ++i) left.push_back(next->dependency(i));
    }
    return files;
  }();
  return offered.contains(&file);
}

void set_error(const std::string& what, ServerReflectionResponse& response) {
  auto& error = *response.mutable_error_response();
  error.set_error_code(static_cast<int>(grpc::StatusCode::NOT_FOUND));
  error.set_error_message("the server has no " + what);
}

// The file, and those that it uses.
void set_file(const FileDescriptor* file, const std::string& what, ServerReflectionResponse& response) {
  if (file == nullptr || !is_offered(*file)) return set_error(what, response);
  std::set<const FileDescriptor*> sent;
  std::vector<const FileDescriptor*> left{file};
  while (!left.empty()) {
    const FileDescriptor* const next = left.back();
    left.pop_back();
    if (!sent.insert(next).second) continue;
    google::protobuf::FileDescriptorProto description;
    next->CopyTo(&description);
    response.mutable_file_descriptor_response()->add_file_descriptor_proto(description.SerializeAsString());
    for (int i = 0; i < next->dependency_count(); ++i) left.push_back(next->dependency(i));
  }
}

ServerReflectionResponse answer_to(const ServerReflectionRequest& request) {
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kListServices:
      for (const char* const name :
           {"inference.GRPCInferenceService", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"})
        response.mutable_list_services_response()->add_service()->set_name(name);
      break;
    case ServerReflectionRequest::kFileByFilename:
      set_file(pool().FindFileByName(request.file_by_filename()), "file of this name", response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      set_file(pool().FindFileContainingSymbol(request.file_containing_symbol()), "symbol of this name", response);
      break;
    case ServerReflectionRequest::kAllExtensionNumbersOfType: {
      const auto* const type = pool().FindMessageTypeByName(request.all_extension_numbers_of_type());
      if (type == nullptr || !is_offered(*type->file())) set_error("type of this name", response);
      else response.mutable_all_extension_numbers_response()->set_base_type_name(type->full_name());
      break;
    }
    case ServerReflectionRequest::kFileContainingExtension:
      set_error("extensions", response);
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      response.mutable_error_response()->set_error_code(static_cast<int>(grpc::StatusCode::INVALID_ARGUMENT));
      response.mutable_error_response()->set_error_message("the request asks for nothing that is known here");
      break;
  }
  return response;
}

}  // namespace

void ReflectionCall::begin() {
  try {
    shared_.service.identify(credentials_);
    read();
  } catch (...) {
    finish_once(status_of(current_failure()));
  }
}

void ReflectionCall::read() {
  expire_after(shared_.limits.transfer_seconds, "no message has come for a long time");
  StartRead(&request_.buffer());
}

void ReflectionCall::OnReadDone(bool ok) {
  if (!ok) return finish_once(grpc::Status::OK);
  try {
    constexpr std::int64_t kMostBytes = 64 << 10;
    if (request_.bytes() > kMostBytes) throw Failure(Reason::too_large, "the message is longer than a name may be");
    request_.decompress(kMostBytes, {});
    ServerReflectionRequest request;
    request_.parse(request);
    const std::lock_guard lock(mutex_);
    if (is_finished_) return;
    answer_ = to_buffer(answer_to(request).SerializeAsString());
    expect_read(static_cast<std::int64_t>(answer_.Length()));
    StartWrite(&answer_);
  } catch (...) {
    finish_once(status_of(current_failure()));
  }
}

void ReflectionCall::OnWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  if (is_finished_) return;
  if (ok) return read();
  is_finished_ = true;
  finish(grpc::Status::OK);
}

void ReflectionCall::end() {
  finish_once(grpc::Status::OK);
}

void ReflectionCall::cancel() {
  finish_once(grpc::Status::CANCELLED);
}

void ReflectionCall::finish_once(const grpc::Status& status) {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(is_finished_, true)) finish(status);
}

}  // namespace tessera::serve
