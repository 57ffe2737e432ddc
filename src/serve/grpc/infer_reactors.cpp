#include "serve/grpc/infer_reactors.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/server_context.h>

#include <deque>

#include "serve/core/log.h"
#include "serve/grpc/convert.h"
#include "serve/protocol/request_decoder.h"

namespace tessera::serve {
namespace {

// The most requests of one stream that are read before answers have gone. Requests of sequences may be more, because
// those that wait for a slot must not keep the last requests of others from being read.
constexpr std::size_t kMostInFlight = 64, kMostOfSequences = 1024;
constexpr std::int64_t kMostAnswerBytes = INT32_MAX - (1 << 20);

// A message of 2 GiB or more ends the process within gRPC.
void check_size(Outcome& outcome) {
  if (outcome.failure) return;
  std::int64_t bytes = 0;
  for (const OutputTensor& output : outcome.response.outputs) bytes += encoded_bytes(output.tensor);
  if (bytes > kMostAnswerBytes)
    outcome.failure = Failure(Reason::too_large, fmt::format("the answer has {} bytes, and gRPC takes {} at most: ask "
                                                             "for outputs in shared memory, or by HTTP",
                                                             bytes, kMostAnswerBytes));
}

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
                                                   check_size(outcome);
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
    : public grpc::ServerBidiReactor<inference::ModelInferRequest, inference::ModelStreamInferResponse>,
      public EndingStream {
 public:
  StreamReactor(Service& service, grpc::CallbackServerContext& context, OpenStreams& streams)
      : service_(service), streams_(streams), credentials_(credentials_of(context)) {
    StartRead(&request_);
    streams_.add(*this);
  }
  ~StreamReactor() override { streams_.remove(*this); }

  void end() override {
    const std::lock_guard lock(mutex_);
    reading_ended_ = true;
    finish_if_over();
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
      if (finished_) return;
      ++in_flight_;
    }
    begin_call();
    const std::lock_guard lock(mutex_);
    if (finished_) return;
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
            check_size(outcome);
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
  OpenStreams& streams_;
  const Credentials credentials_;
  inference::ModelInferRequest request_;
  std::mutex mutex_;
  std::set<std::shared_ptr<Call>> calls_;
  std::deque<inference::ModelStreamInferResponse> answers_;  // the first one is being written
  std::size_t in_flight_ = 0, most_in_flight_ = kMostInFlight;
  bool reading_ended_ = false, reading_waits_ = false, is_cancelled_ = false, finished_ = false;
};

}  // namespace

void OpenStreams::add(EndingStream& stream) {
  bool is_ended = false;
  {
    const std::lock_guard lock(mutex_);
    streams_.insert(&stream);
    is_ended = is_ended_;
  }
  if (is_ended) stream.end();
}

void OpenStreams::remove(EndingStream& stream) {
  const std::lock_guard lock(mutex_);
  streams_.erase(&stream);
}

void OpenStreams::end() {
  const std::lock_guard lock(mutex_);
  is_ended_ = true;
  for (EndingStream* const stream : streams_) stream->end();
}

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
    Service& service, grpc::CallbackServerContext& context, OpenStreams& streams) {
  return new StreamReactor(service, context, streams);
}

}  // namespace tessera::serve
