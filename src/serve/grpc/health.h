// grpc.health.v1: whether the server ("" or the name of its service) or a model, by its name, takes requests.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "serve/grpc/unary_call.h"

namespace tessera::serve {

UnaryMethod health_check(Service& service);

// How many calls of Watch there are. Thread-safe.
class WatchPlaces {
 public:
  // Null where too many are taken, by one IP address or by all; else the place, which its end gives back.
  std::shared_ptr<void> take(const std::string& ip);

 private:
  struct State {
    std::mutex mutex;
    std::map<std::string, std::int64_t> of_peer;
    std::int64_t all = 0;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

// Sends the status at once and whenever it changes, until the client or the server ends.
class WatchCall final : public GrpcCall {
 public:
  WatchCall(GrpcShared& shared, Context& context, WatchPlaces& places)
      : GrpcCall(shared, context), place_(places.take(peer_.ip)) {}

  void end() override;
  void tick() override;

 private:
  void begin() override;
  void cancel() override;
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void tell(int status);
  void finish_once(const grpc::Status& status);

  const std::shared_ptr<void> place_;
  ReceivedMessage request_;
  std::mutex mutex_;
  std::string name_;
  grpc::ByteBuffer answer_;
  int told_ = -1, ticks_ = 0;  // the status that was told last; -1: none
  bool is_watching_ = false, is_writing_ = false, is_ended_ = false, is_finished_ = false;
};

}  // namespace tessera::serve
