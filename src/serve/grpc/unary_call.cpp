#include "serve/grpc/unary_call.h"

#include "serve/core/operations/log.h"

namespace tessera::serve {
namespace {

constexpr std::int64_t kSmallBytes = 64 << 10;  // are compressed by any thread, and not worth abandoning

}  // namespace

void UnaryCall::begin() {
  try {
    if (method_.is_inference) shared_.service.admit_inference(credentials_);
    else if (!method_.is_public) shared_.service.identify(credentials_);
    expire_after(shared_.limits.transfer_seconds, "the message did not come in time");
    StartRead(&message_.buffer());
  } catch (...) {
    refuse(current_failure());
  }
}

void UnaryCall::cancel() {
  const std::lock_guard lock(cancellable_->mutex);
  cancellable_->is_cancelled = true;
  if (cancellable_->call) cancellable_->call->cancel();
}

void UnaryCall::Cancellable::set(std::shared_ptr<Call> begun) {
  const std::lock_guard lock(mutex);
  call = std::move(begun);
  if (is_cancelled) call->cancel();
}

void UnaryCall::OnReadDone(bool ok) {
  never_expire();
  if (!ok) return refuse({Reason::bad_request, "the call has no message"});
  bytes_in_ = message_.bytes();
  claim(bytes_in_, [this](bool is_claimed) {
    if (!is_claimed) return refuse(out_of_bytes());
    compression_ = message_.compression();
    if (compression_ == GRPC_COMPRESS_NONE) return handle();
    if (!shared_.coding.add([this] { decompress(); }))
      refuse({Reason::unavailable, "too many compressed messages wait to be decompressed", 1});
  });
}

void UnaryCall::decompress() {
  try {
    message_.decompress(shared_.limits.message_bytes, [this](std::int64_t bytes) { return lease_.take(bytes); });
  } catch (...) {
    return refuse(current_failure());
  }
  handle();
}

void UnaryCall::handle() {
  if (!method_.is_slow) return handle_here();
  if (!shared_.changes.add([this] { handle_here(); }))
    refuse({Reason::unavailable, "too many models wait to be loaded", 5});
}

void UnaryCall::handle_here() {
  try {
    method_.handle(*this);
  } catch (...) {
    const Failure failure = current_failure();
    if (failure.reason() == Reason::internal)
      log_current_exception("a request failed", {{"method", context_.method()}});
    refuse(failure);
  }
}

void UnaryCall::answer(std::string bytes) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  lease_.release();
  const bool packs = compression_ != GRPC_COMPRESS_NONE && pays_to_compress(size);
  claim(size, [this, packs, size, owner = std::make_shared<std::string>(std::move(bytes))](bool is_claimed) {
    if (!is_claimed) return refuse(out_of_bytes());
    if (!packs) return send(to_buffer(std::move(*owner)));
    context_.set_compression_algorithm(compression_);
    const auto pack = [this, owner] { send(to_compressed_buffer(std::move(*owner), compression_)); };
    if (size <= kSmallBytes || !shared_.coding.add(pack)) pack();
  });
}

void UnaryCall::send(grpc::ByteBuffer answer) {
  answer_.Swap(&answer);
  bytes_out_ = static_cast<std::int64_t>(answer_.Length());
  if (lease_.held() > kSmallBytes) abandon_when_slow();
  expect_read(bytes_out_);
  set_status(grpc::StatusCode::OK);
  StartWriteAndFinish(&answer_, grpc::WriteOptions().set_no_compression(), grpc::Status::OK);
}

void UnaryCall::refuse(const Failure& failure) {
  lease_.release();
  finish(status_of(failure));
}

}  // namespace tessera::serve
