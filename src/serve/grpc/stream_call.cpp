#include "serve/grpc/stream_call.h"

#include <inference.pb.h>

#include <algorithm>

#include "serve/grpc/convert.h"

namespace tessera::serve {
namespace {

// The most requests of one stream that are read before answers have gone. Requests of sequences may be more, because
// those that wait for a slot must not keep the last requests of others from being read. The first answer shows how many
// answers find place.
constexpr std::size_t kMostInFlight = 64, kMostOfSequences = 1024, kFirstInFlight = 1;
constexpr std::int64_t kSmallBytes = 64 << 10;  // of answers, not worth abandoning

std::string error_message(const Failure& failure, const std::string& id) {
  inference::ModelStreamInferResponse answer;
  answer.set_error_message(failure.what());
  answer.mutable_infer_response()->set_id(id);
  return answer.SerializeAsString();
}

}  // namespace

void StreamCall::begin() {
  try {
    shared_.service.identify(credentials_);
    StartRead(&request_.buffer());
  } catch (...) {
    const std::lock_guard lock(mutex_);
    is_finished_ = true;
    finish(status_of(current_failure()));
  }
}

void StreamCall::end() {
  const std::lock_guard lock(mutex_);
  reading_ended_ = true;
  finish_if_over();
}

void StreamCall::cancel() {
  const std::lock_guard lock(mutex_);
  is_cancelled_ = true;
  for (const std::shared_ptr<Call>& call : calls_) call->cancel();
}

void StreamCall::OnReadDone(bool ok) {
  {
    const std::lock_guard lock(mutex_);
    if (is_finished_) return;
    if (!ok) {
      reading_ended_ = true;
      return finish_if_over();
    }
    ++in_flight_;
  }
  request_bytes_ = request_.bytes();
  bytes_in_ += request_bytes_;
  claim(request_bytes_, [this](bool is_claimed) { take_request(is_claimed); });
}

void StreamCall::take_request(bool is_claimed) {
  if (!is_claimed) {
    compression_is_known_ = true;  // the answer's header says how it and all others may be compressed
    request_bytes_ = 0;
    request_.buffer().Clear();
    Slot slot;
    refuse(out_of_bytes(), "", slot);
    return read_on();
  }
  const grpc_compression_algorithm compression = request_.compression();
  if (!std::exchange(compression_is_known_, true) && compression != GRPC_COMPRESS_NONE) {
    compression_ = compression;
    context_.set_compression_algorithm(compression);
  }
  // The next one is read when this one is known, so that requests keep their order.
  if (compression == GRPC_COMPRESS_NONE || !shared_.coding.add([this] { decompress(); })) begin_request();
}

void StreamCall::decompress() {
  const std::int64_t packed = request_bytes_;
  try {
    request_.decompress(shared_.limits.message_bytes, [this](std::int64_t bytes) {
      if (!lease_.take(bytes)) return false;
      request_bytes_ += bytes;
      return true;
    });
  } catch (...) {
    request_.buffer().Clear();
    Slot slot{nullptr, request_bytes_, false, nullptr};
    refuse(current_failure(), "", slot);
    return read_on();
  }
  lease_.give(packed);
  request_bytes_ -= packed;
  begin_request();
}

void StreamCall::begin_request() {
  ++shared_.service.grpc_requests;
  auto slot = std::make_shared<Slot>();
  slot->bytes = request_bytes_;
  Credentials who = credentials_;
  if (who.record) {
    slot->record = who.record = begin_record(context_.method(), credentials_);
    slot->record->bytes_in = request_bytes_;
  }
  std::string id;
  try {
    if (request_.compression() != GRPC_COMPRESS_NONE)
      throw Failure(Reason::unavailable, "too many compressed messages wait to be decompressed", 1);
    inference::ModelInferRequest message;
    request_.parse(message);
    id = message.id();
    {
      const std::lock_guard lock(mutex_);
      of_sequences_ = of_sequences_ || message.parameters().contains("sequence_id");
    }
    std::shared_ptr<Call> call =
        shared_.service.infer(who, from_message(message), [this, slot](Outcome outcome, InferenceRequest& asked) {
          try {
            if (outcome.failure) throw *outcome.failure;
            add_answer(encode_stream_answer(outcome.response, asked), asked.id, *slot);
          } catch (...) {
            refuse(current_failure(), asked.id, *slot);
          }
        });
    const std::lock_guard lock(mutex_);
    if (is_cancelled_) call->cancel();
    if (!slot->is_answered) calls_.insert(slot->call = call);
  } catch (...) {
    refuse(current_failure(), id, *slot);
  }
  read_on();
}

void StreamCall::read_on() {
  const std::lock_guard lock(mutex_);
  if (is_finished_) return;
  reading_waits_ = !may_read();
  if (!reading_waits_) StartRead(&request_.buffer());
}

// With the mutex held, like the functions below.
bool StreamCall::may_read() const {
  const std::size_t most = of_sequences_ ? kMostOfSequences : largest_answer_ > 0 ? kMostInFlight : kFirstInFlight;
  const std::int64_t expected = waiting_bytes_ + static_cast<std::int64_t>(in_flight_ + 1) * largest_answer_;
  const bool is_idle = in_flight_ == 0 && answers_.empty();
  return is_idle || (in_flight_ + answers_.size() < most && expected <= shared_.limits.stream_answer_bytes);
}

void StreamCall::refuse(const Failure& failure, const std::string& id, Slot& slot) {
  if (slot.record) slot.record->status = status_of(failure).error_code();
  add_answer(error_message(failure, id), id, slot);
}

void StreamCall::add_answer(std::string bytes, const std::string& id, Slot& slot) {
  const std::int64_t size = static_cast<std::int64_t>(bytes.size());
  const bool packs = compression_ != GRPC_COMPRESS_NONE && pays_to_compress(size);
  Answer answer{packs ? to_compressed_buffer(std::move(bytes), compression_) : to_buffer(std::move(bytes)), 0};
  answer.bytes = static_cast<std::int64_t>(answer.buffer.Length());
  if (slot.record) {
    slot.record->bytes_out = answer.bytes;
    slot.record->ended_ns = now_ns();
    shared_.access_log->add(*slot.record);
  }
  BodyBudget& bodies = shared_.bodies;
  std::unique_lock lock(mutex_);
  lease_.give(std::exchange(slot.bytes, 0));
  largest_answer_ = std::max(largest_answer_, answer.bytes);
  const bool has_place = answers_.empty() || waiting_bytes_ + answer.bytes <= shared_.limits.stream_answer_bytes;
  const bool is_taken = has_place && lease_.take(answer.bytes);
  if (!is_taken) {
    const Failure full(Reason::exhausted,
                       fmt::format("{} bytes of this stream's answers wait to be read", waiting_bytes_));
    answer = {to_buffer(error_message(has_place ? out_of_bytes() : full, id)), 0};
  }
  slot.is_answered = true;
  calls_.erase(slot.call);
  slot.call.reset();
  --in_flight_;
  waiting_bytes_ += answer.bytes;
  bytes_out_ += answer.bytes;
  answers_.push_back(std::move(answer));
  if (answers_.size() == 1) write_next();
  lock.unlock();  // what is abandoned may be this stream, which may have ended
  if (has_place && !is_taken) bodies.abandon_slowest();
}

void StreamCall::write_next() {
  expect_read(answers_.front().bytes);
  if (waiting_bytes_ > kSmallBytes) abandon_when_slow();
  StartWrite(&answers_.front().buffer, grpc::WriteOptions().set_no_compression());
}

void StreamCall::OnWriteDone(bool ok) {
  const std::lock_guard lock(mutex_);
  const auto drop = [this] {
    waiting_bytes_ -= answers_.front().bytes;
    lease_.give(answers_.front().bytes);
    answers_.pop_front();
  };
  drop();
  while (!ok && !answers_.empty()) drop();
  if (!answers_.empty()) write_next();
  else {
    never_expire();
    lease_.end_transfer();
  }
  if (reading_waits_ && !is_finished_ && may_read()) {
    reading_waits_ = false;
    StartRead(&request_.buffer());
  }
  finish_if_over();
}

void StreamCall::finish_if_over() {
  if (!reading_ended_ || in_flight_ > 0 || !answers_.empty() || is_finished_) return;
  is_finished_ = true;
  finish(grpc::Status::OK);
}

}  // namespace tessera::serve
