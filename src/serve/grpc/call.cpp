#include "serve/grpc/call.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>

#include <algorithm>
#include <chrono>

#include "serve/observe/request_id.h"

namespace tessera::serve {
namespace {

constexpr std::chrono::milliseconds kRetry{10};       // between two tries to take bytes
constexpr std::int64_t kMostWait_ns = 2'000'000'000;  // for bytes of the budget

std::int64_t ns_of(double seconds) {
  return static_cast<std::int64_t>(seconds * 1e9);
}

}  // namespace

bool OpenCalls::take_place(const std::string& ip, std::int64_t most) {
  const std::lock_guard lock(mutex_);
  std::int64_t& of_peer = places_[ip];
  const bool is_taken = taken_ < most && of_peer < std::max<std::int64_t>(most / 2, 1);
  if (is_taken) ++taken_, ++of_peer;
  if (of_peer == 0) places_.erase(ip);
  return is_taken;
}

void OpenCalls::give_place(const std::string& ip) {
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(ip);
  --taken_;
  if (--found->second == 0) places_.erase(found);
}

void OpenCalls::add(GrpcCall& call) {
  static std::atomic<std::uint64_t> numbers{0};
  call.number_ = ++numbers;
  const std::lock_guard lock(mutex_);
  calls_.emplace(call.number_, &call);
  if (is_ended_) call.end();
}

void OpenCalls::remove(GrpcCall& call) {
  const std::lock_guard lock(mutex_);
  calls_.erase(call.number_);
}

// gRPC calls no reactor from within its own functions, so that the mutex may be held.
void OpenCalls::end() {
  const std::lock_guard lock(mutex_);
  is_ended_ = true;
  for (const auto& [number, call] : calls_) call->end();
}

void OpenCalls::tick() {
  const std::int64_t now = now_ns();
  const std::lock_guard lock(mutex_);
  for (const auto& [number, call] : calls_) {
    if (call->expiry_ns_ > now) {
      call->tick();
      continue;
    }
    call->never_expire();
    call->break_off(call->why_late_.load());
  }
}

void OpenCalls::break_off(std::uint64_t number, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (const auto found = calls_.find(number); found != calls_.end()) found->second->break_off(why);
}

void GrpcRetries::add(std::function<void()> retry) {
  const std::lock_guard lock(mutex_);
  retries_.push_back(std::move(retry));
  if (retries_.size() == 1) changed_.notify_all();
}

void GrpcRetries::wait(std::chrono::milliseconds pause) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, pause, [this] { return stops_ || !retries_.empty(); });
  if (stops_ || retries_.empty()) return;
  changed_.wait_for(lock, kRetry, [this] { return stops_; });
  const std::vector<std::function<void()>> now = std::exchange(retries_, {});
  lock.unlock();
  for (const std::function<void()>& retry : now) retry();
}

void GrpcRetries::stop() {
  const std::lock_guard lock(mutex_);
  stops_ = true;
  changed_.notify_all();
}

bool GrpcRetries::is_stopped() {
  const std::lock_guard lock(mutex_);
  return stops_;
}

GrpcCall::GrpcCall(GrpcShared& shared, Context& context)
    : shared_(shared),
      context_(context),
      peer_(parse_peer(context.peer())),
      credentials_(credentials_of(context, peer_)),
      lease_(shared.bodies) {
  if (shared.access_log != nullptr) credentials_.record = begin_record(context.method(), credentials_);
}

void GrpcCall::start() {
  ++shared_.service.grpc_requests;
  shared_.connections.begin_call(peer_);
  context_.AddInitialMetadata("x-request-id", credentials_.request_id);
  has_place_ = shared_.calls->take_place(peer_.ip, shared_.limits.calls);
  if (!has_place_) return finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "too many calls are in progress"});
  begin();
  shared_.calls->add(*this);
}

void GrpcCall::OnDone() {
  shared_.calls->remove(*this);
  if (has_place_) shared_.calls->give_place(peer_.ip);
  shared_.connections.end_call(peer_);
  if (credentials_.record) {
    set_status(grpc::StatusCode::CANCELLED);
    AccessRecord& record = *credentials_.record;
    record.status = status_;
    record.bytes_in = bytes_in_;
    record.bytes_out = bytes_out_;
    record.ended_ns = now_ns();
    shared_.access_log->add(record);
  }
  delete this;
}

void GrpcCall::OnCancel() {
  set_status(grpc::StatusCode::CANCELLED);
  if (has_place_) cancel();
}

void GrpcCall::set_status(grpc::StatusCode code) {
  int none = -1;
  status_.compare_exchange_strong(none, code);
}

void GrpcCall::expire_after(double seconds, const char* why) {
  why_late_ = why;
  expiry_ns_ = now_ns() + ns_of(seconds);
}

void GrpcCall::expect_read(std::int64_t bytes) {
  const double seconds = shared_.limits.stall_seconds + static_cast<double>(bytes) / shared_.limits.bytes_per_second;
  expire_after(std::min(seconds, shared_.limits.transfer_seconds), "the answers were not read in time");
}

void GrpcCall::claim(std::int64_t bytes, std::function<void(bool)> then) {
  try_claim(bytes, then, now_ns() + kMostWait_ns);
}

void GrpcCall::try_claim(std::int64_t bytes, const std::function<void(bool)>& then, std::int64_t until_ns) {
  if (lease_.take(bytes)) return then(true);
  if (now_ns() > until_ns || bytes > shared_.bodies.limit() || is_cancelled()) return then(false);
  shared_.bodies.abandon_slowest();
  shared_.retries.add([this, bytes, then, until_ns] { try_claim(bytes, then, until_ns); });
}

void GrpcCall::abandon_when_slow() {
  lease_.begin_transfer([calls = shared_.calls, number = number_] {
    calls->break_off(number, "the server holds too many answers, and this one was read too slowly");
  });
}

void GrpcCall::finish(const grpc::Status& status) {
  never_expire();
  set_status(status.error_code());
  Finish(status);
}

// The client gets the reason as the call's status, though answers before it may be unread.
void GrpcCall::break_off(const std::string& why) {
  set_status(grpc::StatusCode::RESOURCE_EXHAUSTED);
  grpc_call_cancel_with_status(context_.c_call(), GRPC_STATUS_RESOURCE_EXHAUSTED, why.c_str(), nullptr);
}

Failure out_of_bytes() {
  return {Reason::exhausted, "the server holds too many messages and answers", 1};
}

Credentials credentials_of(const grpc::CallbackServerContext& context, const PeerAddress& peer) {
  Credentials credentials;
  const auto& metadata = context.client_metadata();
  const auto take = [&](const char* key, std::string& value) {
    const auto found = metadata.find(key);
    if (found != metadata.end()) value.assign(found->second.data(), found->second.size());
  };
  take("authorization", credentials.authorization);
  take("traceparent", credentials.traceparent);
  take("tracestate", credentials.tracestate);
  take("x-request-id", credentials.request_id);
  credentials.request_id = request_id(credentials.request_id);
  const auto authenticated = context.auth_context();
  if (authenticated && authenticated->IsPeerAuthenticated()) {
    const auto names = authenticated->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME);
    if (names.size() == 1) credentials.certificate.assign(names[0].data(), names[0].size());
  }
  credentials.address = peer.ip;
  return credentials;
}

std::shared_ptr<AccessRecord> begin_record(const std::string& path, const Credentials& credentials) {
  auto record = std::make_shared<AccessRecord>();
  record->id = credentials.request_id;
  record->protocol = "grpc";
  record->peer = credentials.address;
  record->method = "POST";  // as every call of gRPC
  record->path = path;
  record->began_ns = now_ns();
  return record;
}

grpc::Status status_of(const Failure& failure) {
  const auto code = [&] {
    switch (failure.reason()) {
      case Reason::bad_request:
      case Reason::too_large:
      case Reason::unsupported_media:
        return grpc::StatusCode::INVALID_ARGUMENT;
      case Reason::unauthenticated:
        return grpc::StatusCode::UNAUTHENTICATED;
      case Reason::forbidden:
        return grpc::StatusCode::PERMISSION_DENIED;
      case Reason::not_found:
        return grpc::StatusCode::NOT_FOUND;
      case Reason::method:
      case Reason::unsupported:
        return grpc::StatusCode::UNIMPLEMENTED;
      case Reason::rate_limited:
      case Reason::exhausted:
        return grpc::StatusCode::RESOURCE_EXHAUSTED;
      case Reason::cancelled:
        return grpc::StatusCode::CANCELLED;
      case Reason::unavailable:
        return grpc::StatusCode::UNAVAILABLE;
      case Reason::deadline_exceeded:
        return grpc::StatusCode::DEADLINE_EXCEEDED;
      case Reason::internal:
        return grpc::StatusCode::INTERNAL;
    }
    return grpc::StatusCode::INTERNAL;
  };
  return {code(), failure.what()};
}

}  // namespace tessera::serve
