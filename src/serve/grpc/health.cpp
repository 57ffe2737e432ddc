#include "serve/grpc/health.h"

#include <health.pb.h>

#include <algorithm>

#include "base/text.h"

namespace tessera::serve {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

constexpr std::int64_t kMostWatches = 256, kMostOfPeer = 64;
constexpr int kTicks = 5;  // of the server, between two looks at the status

// For a model the caller must have the role `read`, as for its readiness over HTTP. Throws Failure for who has not.
HealthCheckResponse::ServingStatus status_of(Service& service, const Credentials& who, const std::string& name) {
  const auto serving = [](bool is) { return is ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING; };
  if (name.empty() || name == "inference.GRPCInferenceService") return serving(service.is_ready());
  try {
    service.model(who, name, "");
    return serving(!service.is_leaving());
  } catch (const Failure& failure) {
    if (failure.reason() == Reason::unavailable) return HealthCheckResponse::NOT_SERVING;
    if (failure.reason() != Reason::not_found) throw;
  }
  const bool is_known =
      std::ranges::any_of(service.index(who), [&](const ModelState& state) { return state.name == name; });
  return is_known ? HealthCheckResponse::NOT_SERVING : HealthCheckResponse::SERVICE_UNKNOWN;
}

std::string bytes_of(int status) {
  HealthCheckResponse response;
  response.set_status(static_cast<HealthCheckResponse::ServingStatus>(status));
  return response.SerializeAsString();
}

}  // namespace

UnaryMethod health_check(Service& service) {
  const auto handle = [&service](UnaryCall& call) {
    HealthCheckRequest request;
    call.message().parse(request);
    const int status = status_of(service, call.credentials(), request.service());
    if (status == HealthCheckResponse::SERVICE_UNKNOWN)
      throw Failure(Reason::not_found, fmt::format("the server has no model '{}'", base::shown(request.service())));
    call.answer(bytes_of(status));
  };
  return {handle, true, false};
}

std::shared_ptr<void> WatchPlaces::take(const std::string& ip) {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->of_peer.find(ip);
  if (state_->all >= kMostWatches || (found != state_->of_peer.end() && found->second >= kMostOfPeer)) return nullptr;
  ++state_->all;
  ++state_->of_peer[ip];
  return {state_.get(), [state = state_, ip](void*) {
            const std::lock_guard lock(state->mutex);
            --state->all;
            if (--state->of_peer[ip] == 0) state->of_peer.erase(ip);
          }};
}

void WatchCall::begin() {
  if (place_ == nullptr)
    return finish_once({grpc::StatusCode::RESOURCE_EXHAUSTED, "too many calls watch the health of this server"});
  expire_after(shared_.limits.stall_seconds, "the message did not come in time");
  StartRead(&request_.buffer());
}

void WatchCall::OnReadDone(bool ok) {
  never_expire();
  if (!ok) return finish_once({grpc::StatusCode::INVALID_ARGUMENT, "the call has no message"});
  try {
    if (request_.compression() != GRPC_COMPRESS_NONE)
      request_.decompress(shared_.limits.message_bytes, [this](std::int64_t bytes) { return lease_.take(bytes); });
    HealthCheckRequest request;
    request_.parse(request);
    lease_.release();
    const int status = status_of(shared_.service, credentials_, request.service());
    const std::lock_guard lock(mutex_);
    name_ = request.service();
    is_watching_ = true;
    if (!is_ended_) tell(status);
    else if (!is_finished_) is_finished_ = true, finish(grpc::Status::OK);
  } catch (...) {
    finish_once(serve::status_of(current_failure()));
  }
}

// With the mutex held.
void WatchCall::tell(int status) {
  if (is_writing_ || is_finished_ || status == told_) return;
  told_ = status;
  is_writing_ = true;
  answer_ = to_buffer(bytes_of(status));
  expect_read(static_cast<std::int64_t>(answer_.Length()));
  StartWrite(&answer_);
}

void WatchCall::OnWriteDone(bool ok) {
  never_expire();
  const std::lock_guard lock(mutex_);
  is_writing_ = false;
  if (is_finished_) return;
  if (is_ended_ && ok) tell(HealthCheckResponse::NOT_SERVING);
  if (is_writing_ || (ok && !is_ended_)) return;
  is_finished_ = true;
  finish(grpc::Status::OK);
}

void WatchCall::tick() {
  const std::lock_guard lock(mutex_);
  if (!is_watching_ || is_writing_ || is_ended_ || is_finished_ || ++ticks_ % kTicks != 0) return;
  try {
    tell(status_of(shared_.service, credentials_, name_));
  } catch (...) {
    is_finished_ = true;
    finish(serve::status_of(current_failure()));
  }
}

void WatchCall::end() {
  const std::lock_guard lock(mutex_);
  is_ended_ = true;
  if (is_finished_ || is_writing_ || !is_watching_) return;
  tell(HealthCheckResponse::NOT_SERVING);
  if (is_writing_) return;
  is_finished_ = true;
  finish(grpc::Status::OK);
}

void WatchCall::cancel() {
  finish_once(grpc::Status::CANCELLED);
}

void WatchCall::finish_once(const grpc::Status& status) {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(is_finished_, true)) finish(status);
}

}  // namespace tessera::serve
