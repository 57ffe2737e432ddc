// grpc.reflection.v1 and v1alpha: the server's services and messages, for tools.
#pragma once

#include <mutex>

#include "serve/grpc/call.h"
#include "serve/grpc/messages.h"

namespace tessera::serve {

// Answers one request after the other, each when the answer before it has been read.
class ReflectionCall final : public GrpcCall {
 public:
  ReflectionCall(GrpcShared& shared, Context& context) : GrpcCall(shared, context) {}

  void end() override;

 private:
  void begin() override;
  void cancel() override;
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void read();
  void finish_once(const grpc::Status& status);

  ReceivedMessage request_;
  grpc::ByteBuffer answer_;
  std::mutex mutex_;
  bool is_finished_ = false;
};

}  // namespace tessera::serve
