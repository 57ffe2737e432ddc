// Streams of requests for inference and of their answers.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "serve/grpc/call.h"
#include "serve/grpc/messages.h"

namespace tessera::serve {

// Requests are read while their answers find place: where the client reads no answers, its requests are not read, and
// the stream is broken off when the time for an answer has passed.
class StreamCall final : public GrpcCall {
 public:
  StreamCall(GrpcShared& shared, Context& context) : GrpcCall(shared, context) {}

  void end() override;

 private:
  // A call in flight; the answer may come before the call is known here.
  struct Slot {
    std::shared_ptr<Call> call;
    std::int64_t bytes = 0;  // of its message
    bool is_answered = false;
    std::shared_ptr<AccessRecord> record;  // null: no line of the access log is written
  };
  struct Answer {
    grpc::ByteBuffer buffer;
    std::int64_t bytes = 0;  // that it holds of the budget
  };

  void begin() override;
  void cancel() override;
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;

  void take_request(bool is_claimed);
  void decompress();
  void begin_request();
  void read_on();
  bool may_read() const;
  void refuse(const Failure& failure, const std::string& id, Slot& slot);
  void add_answer(std::string bytes, const std::string& id, Slot& slot);
  void write_next();
  void finish_if_over();

  ReceivedMessage request_;
  std::int64_t request_bytes_ = 0;  // that it holds of the budget
  grpc_compression_algorithm compression_ = GRPC_COMPRESS_NONE;
  std::mutex mutex_;
  std::set<std::shared_ptr<Call>> calls_;
  std::deque<Answer> answers_;  // the first one is being written
  std::int64_t waiting_bytes_ = 0, largest_answer_ = 0;
  std::size_t in_flight_ = 0;
  bool of_sequences_ = false, compression_is_known_ = false;
  bool reading_ended_ = false, reading_waits_ = false, is_cancelled_ = false, is_finished_ = false;
};

}  // namespace tessera::serve
