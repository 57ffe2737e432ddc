#include "serve/grpc/infer_reactors.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/server_context.h>

#include <deque>
#include <mutex>
#include <set>

#include "serve/core/log.h"
#include "serve/grpc/convert.h"

namespace tessera::serve {
namespace {

// The most requests of one stream that are read before answers have gone. Requests of sequences may be more, because
// those that wait for a slot must not keep the last requests of others from being read.
constexpr std::size_t kMostInFlight = 64, kMostOfSequences = 1024;

class InferReactor final : public grpc::ServerUnaryReactor {
 public:
  InferReactor(Service& service, grpc::CallbackServerContext& context, const inference::ModelInferRequest& request,
               inference::ModelInferResponse& response)
      : shared_(std::make_shared<Shared>()) {
    // What is done below may end the reactor before this returns.
    const std::shared_ptr<Shared> shared = shared_;
    try {
      std::shared_ptr<Call> call = service.infer(credentials_of(context), from_message(request),
                                                 [this, &response](Outcome outcome, InferenceRequest& asked) {
                                                   if (outcome.failure) return Finish(status_of(*outcome.failure));
                                                   to_message(outcome.response, asked, response);
                                                   Finish(grpc::Status::OK);
                                                 });
      const std::lock_guard lock(shared->mutex);
      shared->call = std::move(call);
      if (shared->is_cancelled) shared->call->cancellation.cancel();
    } catch (...) {
      Finish(status_of(current_failure()));
    }
  }

  void OnCancel() override {
    const std::lock_guard lock(shared_->mutex);
    shared_->is_cancelled = true;
    if (shared_->call) shared_->call->cancellation.cancel();
  }
  void OnDone() override { delete this; }

 private:
  struct Shared {
    std::mutex mutex;
    std::shared_ptr<Call> call;
    bool is_cancelled = false;
  };
  std::shared_ptr<Shared> shared_;
};

class StreamReactor final
    : public grpc::ServerBidiReactor<inference::ModelInferRequest, inference::ModelStreamInferResponse> {
 public:
  StreamReactor(Service& service, grpc::CallbackServerContext& context)
      : service_(service), credentials_(credentials_of(context)) {
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      const std::lock_guard lock(mutex_);
      reading_ended_ = true;
      return finish_if_over();
    }
    ++service_.grpc_requests;
    {
      const std::lock_guard lock(mutex_);
      ++in_flight_;
    }
    begin_call();
    const std::lock_guard lock(mutex_);
    if (request_.parameters().contains("sequence_id")) most_in_flight_ = kMostOfSequences;
    if (in_flight_ + answers_.size() < most_in_flight_) StartRead(&request_);
    else reading_waits_ = true;
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    answers_.pop_front();
    if (!ok) answers_.clear();
    if (!answers_.empty()) StartWrite(&answers_.front());
    if (reading_waits_ && in_flight_ + answers_.size() < most_in_flight_) {
      reading_waits_ = false;
      StartRead(&request_);
    }
    finish_if_over();
  }

  void OnCancel() override {
    const std::lock_guard lock(mutex_);
    is_cancelled_ = true;
    for (const std::shared_ptr<Call>& call : calls_) call->cancellation.cancel();
  }
  void OnDone() override { delete this; }

 private:
  // A call in flight; the answer may come before the call is known here.
  struct Slot {
    std::shared_ptr<Call> call;
    bool is_answered = false;
  };

  void begin_call() {
    const std::string id = request_.id();
    auto slot = std::make_shared<Slot>();
    try {
      std::shared_ptr<Call> call =
          service_.infer(credentials_, from_message(request_), [this, slot](Outcome outcome, InferenceRequest& asked) {
            inference::ModelStreamInferResponse answer;
            if (outcome.failure) {
              answer.set_error_message(outcome.failure->what());
              answer.mutable_infer_response()->set_id(asked.id);
            } else to_message(outcome.response, asked, *answer.mutable_infer_response());
            add_answer(std::move(answer), slot.get());
          });
      const std::lock_guard lock(mutex_);
      if (is_cancelled_) call->cancellation.cancel();
      if (!slot->is_answered) calls_.insert(slot->call = call);
    } catch (...) {
      inference::ModelStreamInferResponse answer;
      answer.set_error_message(current_failure().what());
      answer.mutable_infer_response()->set_id(id);
      add_answer(std::move(answer), nullptr);
    }
  }

  void add_answer(inference::ModelStreamInferResponse answer, Slot* slot) {
    const std::lock_guard lock(mutex_);
    if (slot != nullptr) {
      slot->is_answered = true;
      calls_.erase(slot->call);
      slot->call.reset();
    }
    --in_flight_;
    answers_.push_back(std::move(answer));
    if (answers_.size() == 1) StartWrite(&answers_.front());
  }

  // With the mutex held.
  void finish_if_over() {
    if (!reading_ended_ || in_flight_ > 0 || !answers_.empty() || finished_) return;
    finished_ = true;
    Finish(grpc::Status::OK);
  }

  Service& service_;
  const Credentials credentials_;
  inference::ModelInferRequest request_;
  std::mutex mutex_;
  std::set<std::shared_ptr<Call>> calls_;
  std::deque<inference::ModelStreamInferResponse> answers_;  // the first one is being written
  std::size_t in_flight_ = 0, most_in_flight_ = kMostInFlight;
  bool reading_ended_ = false, reading_waits_ = false, is_cancelled_ = false, finished_ = false;
};

}  // namespace

Credentials credentials_of(const grpc::CallbackServerContext& context) {
  Credentials credentials;
  const auto& metadata = context.client_metadata();
  const auto take = [&](const char* key, std::string& value) {
    const auto found = metadata.find(key);
    if (found != metadata.end()) value.assign(found->second.data(), found->second.size());
  };
  take("authorization", credentials.authorization);
  take("traceparent", credentials.traceparent);
  take("tracestate", credentials.tracestate);
  const auto authenticated = context.auth_context();
  if (authenticated && authenticated->IsPeerAuthenticated()) {
    const auto names = authenticated->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME);
    if (names.size() == 1) credentials.certificate.assign(names[0].data(), names[0].size());
  }
  credentials.address = context.peer();
  return credentials;
}

grpc::Status status_of(const Failure& failure) {
  const auto code = [&] {
    switch (failure.reason()) {
      case Reason::bad_request:
      case Reason::too_large:
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

grpc::ServerUnaryReactor* start_infer(Service& service, grpc::CallbackServerContext& context,
                                      const inference::ModelInferRequest& request,
                                      inference::ModelInferResponse& response) {
  return new InferReactor(service, context, request, response);
}

grpc::ServerBidiReactor<inference::ModelInferRequest, inference::ModelStreamInferResponse>* start_stream(
    Service& service, grpc::CallbackServerContext& context) {
  return new StreamReactor(service, context);
}

}  // namespace tessera::serve
