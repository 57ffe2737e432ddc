// Calls with one message and one answer.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "serve/grpc/call.h"
#include "serve/grpc/messages.h"

namespace tessera::serve {

class UnaryCall;

struct UnaryMethod {
  // Answers or refuses the call, exactly once, by any thread, unless it throws Failure.
  std::function<void(UnaryCall&)> handle;
  // Whether everybody may ask; else the caller is identified before the message is read.
  bool is_public = false;
  // Whether a thread of its own handles the call, because it takes long.
  bool is_slow = false;
  // Whether what the caller's key or address allows is looked at before the message is read.
  bool is_inference = false;
};

class UnaryCall final : public GrpcCall {
 public:
  UnaryCall(GrpcShared& shared, Context& context, const UnaryMethod& method)
      : GrpcCall(shared, context), method_(method) {}

  const Credentials& credentials() const { return credentials_; }
  ReceivedMessage& message() { return message_; }
  void answer(std::string bytes);
  void refuse(const Failure& failure);
  // Calls may end before the function that began them has returned: this outlives the call.
  struct Cancellable {
    std::mutex mutex;
    std::shared_ptr<Call> call;
    bool is_cancelled = false;
    void set(std::shared_ptr<Call> begun);
  };
  const std::shared_ptr<Cancellable>& cancellable() const { return cancellable_; }

 private:
  void begin() override;
  void cancel() override;
  void OnReadDone(bool ok) override;
  void decompress();
  void handle();
  void handle_here();
  void send(grpc::ByteBuffer answer);

  const UnaryMethod& method_;
  ReceivedMessage message_;
  grpc_compression_algorithm compression_ = GRPC_COMPRESS_NONE;
  grpc::ByteBuffer answer_;
  const std::shared_ptr<Cancellable> cancellable_ = std::make_shared<Cancellable>();
};

}  // namespace tessera::serve
