#include "text_stream.h"

#include <nanobind/nanobind.h>

#include <chrono>
#include <utility>

#include "gil.h"

namespace nb = nanobind;

namespace tessera::python {
namespace {

// Signals are looked for as often while nothing comes.
constexpr auto kBetweenLooks = std::chrono::milliseconds(20);

}  // namespace

TextStream::TextStream(Generate generate, GenerateOptions options, std::shared_ptr<Cancellation> given)
    : given_(std::move(given)) {
  thread_ = std::thread([this, generate = std::move(generate), options = std::move(options)]() mutable {
    run(generate, std::move(options));
  });
}

void TextStream::run(const Generate& generate, GenerateOptions options) {
  options.cancellation = &stop_;
  options.on_text = [this](const GeneratedText& piece) {
    const std::lock_guard lock(mutex_);
    pieces_.emplace_back(piece.text);
    changed_.notify_all();
    return given_ == nullptr || !given_->flag().load();
  };
  GenerationStats stats;
  std::optional<GeneratedAnswer> answer;
  std::exception_ptr error;
  try {
    answer = generate(options, stats);
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  answer_ = std::move(answer), stats_ = stats, error_ = std::move(error);
  ended_ = true;
  changed_.notify_all();
}

std::optional<std::string> TextStream::next() {
  while (true) {
    {
      const WithoutGil released;
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kBetweenLooks, [this] { return ended_ || !pieces_.empty(); });
      if (!pieces_.empty()) {
        std::string piece = std::move(pieces_.front());
        pieces_.pop_front();
        return piece;
      }
      if (ended_ && error_) std::rethrow_exception(std::exchange(error_, nullptr));
      if (ended_) return std::nullopt;
      if (given_ != nullptr && given_->flag().load()) stop_.cancel();
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

void TextStream::close() {
  if (!thread_.joinable()) return;
  stop_.cancel();
  const WithoutGil released;
  thread_.join();
}

}  // namespace tessera::python
