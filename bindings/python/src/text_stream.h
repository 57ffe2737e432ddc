// An answer of a language model whose text is read piece by piece while a thread of its own generates it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "tessera/generate.h"

namespace tessera::python {

// The thread needs no lock of Python's, so that it neither waits for the interpreter nor outlives it in need of it. All
// functions are called with the lock, by one thread at a time.
class TextStream {
 public:
  // `generate` is called with the options, on_text and cancellation set. `given` also ends the answer; may be null.
  using Generate = std::function<GeneratedAnswer(const GenerateOptions& options, GenerationStats& stats)>;
  TextStream(Generate generate, GenerateOptions options, std::shared_ptr<Cancellation> given);
  ~TextStream() { close(); }
  TextStream(const TextStream&) = delete;
  TextStream& operator=(const TextStream&) = delete;

  // Waits for the next piece; absent at the end. Throws what the generation threw, and what a signal handler raised
  // meanwhile, which leaves the stream as it is.
  std::optional<std::string> next();
  // Ends the answer, and waits for the step under way.
  void close();
  // After the end or close(); without a value where the generation failed.
  const std::optional<GeneratedAnswer>& answer() const { return answer_; }
  const GenerationStats& stats() const { return stats_; }

 private:
  void run(const Generate& generate, GenerateOptions options);

  std::shared_ptr<Cancellation> given_;
  Cancellation stop_;
  std::mutex mutex_;  // for the members up to error_
  std::condition_variable changed_;
  std::deque<std::string> pieces_;
  bool ended_ = false;
  std::optional<GeneratedAnswer> answer_;
  GenerationStats stats_;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace tessera::python
