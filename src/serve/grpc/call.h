// The common part of all calls of the gRPC server: who asks, how much the call holds of the budget, and how long it may
// take. A call is a reactor for messages of bytes, which begins when the call's header has come and its message has
// not.
#pragma once

#include <grpcpp/generic/async_generic_service.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "serve/core/service.h"
#include "serve/grpc/connections.h"
#include "serve/limits/body_budget.h"
#include "serve/limits/task_queue.h"

namespace tessera::serve {

struct GrpcLimits {
  std::int64_t message_bytes = std::int64_t{256} << 20;       // of one request, also after decompression
  std::int64_t stream_answer_bytes = std::int64_t{64} << 20;  // of one stream's answers that wait to be read
  std::int64_t calls = 4096;                                  // at a time; of one IP address half of them
  double stall_seconds = 20;                                  // without a byte, of an answer
  double bytes_per_second = 16 << 10;                         // the least, after stall_seconds, of an answer
  double transfer_seconds = 300;                              // the most for a message or an answer, whatever its size
};

class GrpcCall;

// The calls of a server that have not ended. Thread-safe.
class OpenCalls {
 public:
  // Whether another call of this IP address may be made; give_place() is called when it ends then.
  bool take_place(const std::string& ip, std::int64_t most);
  void give_place(const std::string& ip);
  void add(GrpcCall& call);
  void remove(GrpcCall& call);
  // Tells all calls, and those that come later, that the server ends.
  void end();
  // Breaks off what is late, and lets calls look at the time. Called several times a second.
  void tick();
  // Breaks off the call with that number, if it is open.
  void break_off(std::uint64_t number, const std::string& why);

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, GrpcCall*> calls_;
  std::map<std::string, std::int64_t> places_;  // calls by IP address
  std::int64_t taken_ = 0;
  bool is_ended_ = false;
};

// The functions that calls want to be called a little later, by the thread that watches the server. Thread-safe.
class GrpcRetries {
 public:
  void add(std::function<void()> retry);
  // Waits for `pause`, or for a moment where functions wait to be called, and calls them. Returns at once after stop().
  void wait(std::chrono::milliseconds pause);
  void stop();
  bool is_stopped();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> retries_;
  bool stops_ = false;
};

// The state that the calls of a server share; it outlives them.
struct GrpcShared {
  GrpcShared(Service& its_service, const GrpcLimits& its_limits, BodyBudget& its_bodies, GrpcConnections& its_places,
             AccessLog* its_log)
      : service(its_service), limits(its_limits), bodies(its_bodies), connections(its_places), access_log(its_log) {}

  Service& service;
  const GrpcLimits limits;
  BodyBudget& bodies;
  GrpcConnections& connections;
  AccessLog* const access_log;                                             // null: none
  const std::shared_ptr<OpenCalls> calls = std::make_shared<OpenCalls>();  // other connections may break off a call
  GrpcRetries retries;
  TaskQueue coding, changes;  // decompressing and compressing; loading of models
};

// Deletes itself when gRPC is done with it, which is not before finish().
class GrpcCall : public grpc::ServerGenericBidiReactor {
 public:
  using Context = grpc::GenericCallbackServerContext;

  ~GrpcCall() override = default;
  // Call once, when the call is made.
  void start();

  // The server ends: the call ends when what it has is answered. Thread-safe, like tick().
  virtual void end() {}
  virtual void tick() {}

 protected:
  GrpcCall(GrpcShared& shared, Context& context);

  // Begins to read, or finishes.
  virtual void begin() = 0;
  // The call ends now: what it began is cancelled.
  virtual void cancel() {}

  void OnCancel() final;
  void OnDone() final;

  // At this time the call is broken off with `why`, unless another time is set before.
  void expire_after(double seconds, const char* why);
  void never_expire() { expiry_ns_ = INT64_MAX; }
  // For an answer of so many bytes, from now on.
  void expect_read(std::int64_t bytes);

  // Takes the bytes from the budget at once or, where others must give up theirs first, within two seconds; then calls
  // `then` with whether it could, by this thread or another. One at a time.
  void claim(std::int64_t bytes, std::function<void(bool)> then);

  // From now on the call may be broken off for others that need what it holds of the budget.
  void abandon_when_slow();

  void finish(const grpc::Status& status);
  void set_status(grpc::StatusCode code);  // of the line in the access log; the first one counts
  bool is_cancelled() const { return context_.IsCancelled(); }

  GrpcShared& shared_;
  Context& context_;
  const PeerAddress peer_;
  Credentials credentials_;  // do not change after the constructor
  BodyBudget::Lease lease_;
  std::int64_t bytes_in_ = 0, bytes_out_ = 0;  // of messages and answers

 private:
  friend class OpenCalls;
  void break_off(const std::string& why);
  void try_claim(std::int64_t bytes, const std::function<void(bool)>& then, std::int64_t until_ns);

  std::uint64_t number_ = 0;
  bool has_place_ = false;
  std::atomic<std::int64_t> expiry_ns_{INT64_MAX};
  std::atomic<const char*> why_late_{""};
  std::atomic<int> status_{-1};
};

Credentials credentials_of(const grpc::CallbackServerContext& context, const PeerAddress& peer);
std::shared_ptr<AccessRecord> begin_record(const std::string& path, const Credentials& credentials);
grpc::Status status_of(const Failure& failure);
Failure out_of_bytes();

}  // namespace tessera::serve
