// The capture of work on one or several streams of a simulated device, by the rules of CUDA's stream capture (CUDA C++
// Programming Guide, "Creating a Graph Using Stream Capture", and the error codes of the driver API). Sentences of the
// manual are quoted beside the rule that follows them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backends/simulated/memory_checker.h"
#include "backends/simulated/timeline.h"

namespace tessera::backends::simulated {

// One operation on a stream. One without work only takes time.
struct Operation {
  std::string_view name;  // "MatMul", "copy to device"; of static storage
  TimedOperation timing = {};
  bool is_launch = false;  // of a kernel or a replay; such operations can be made to fail
  std::int64_t link_bytes = 0;
  std::vector<MemoryAccess> accesses = {};
  std::function<void()> work = nullptr;
};

// A recorded operation, with its place in the order.
struct RecordedOperation {
  Operation operation;
  std::size_t branch = 0;          // the stream that it was enqueued on: 0 is the one on which the capture began
  std::vector<std::size_t> after;  // earlier operations of other branches that it waits for
};

struct RecordedWork {
  std::vector<RecordedOperation> operations;  // in the order in which they were enqueued
  std::size_t branches = 1;
  std::vector<std::size_t> last;  // operations of other branches that whatever follows on branch 0 waits for
};

// The capture that begins on one stream. One thread at a time may use it.
class Capture {
 public:
  Capture();
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // The point of a stream that a captured event stands for: the operations that come before it.
  using Point = std::vector<std::size_t>;

  // Adds a stream and returns its branch. Its first operation waits for `point`.
  std::size_t join(const Point& point);
  void add(std::size_t branch, Operation operation);
  Point point_of(std::size_t branch) const;
  // Operations that the branch adds after this call wait for the point.
  void wait(std::size_t branch, const Point& point);

  // Marks the capture as unusable and throws Error that says why: "When an invalid operation is attempted during stream
  // capture, any associated capture graphs are invalidated."
  [[noreturn]] void invalidate(const std::string& why);
  void invalidate_without_throwing(const std::string& why);
  // Throws Error if the capture was invalidated: "The current capture sequence on the stream has been invalidated due
  // to a previous error."
  void check() const;
  bool has_ended() const { return ended_; }

  // Ends the capture and returns what was recorded. Throws Error if the capture was invalidated, a stream was not
  // joined back, or another thread calls: "A stream capture sequence not initiated with the
  // cudaStreamCaptureModeRelaxed argument to cudaStreamBeginCapture was passed to cudaStreamEndCapture in a different
  // thread."
  RecordedWork end();

  // Invalidates the captures of the calling thread and throws Error if there is one; `what` is what the thread tries.
  // All captures are as with CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: "If the local thread has an ongoing capture sequence
  // not initiated with CU_STREAM_CAPTURE_MODE_RELAXED, this thread is prohibited from potentially unsafe API calls."
  static void refuse_to_thread(std::string_view what);
  // Invalidates them without throwing, for what may not throw.
  static void invalidate_of_thread(std::string_view what);

 private:
  std::vector<bool> reached_from_origin() const;

  const std::thread::id thread_ = std::this_thread::get_id();
  std::vector<RecordedOperation> operations_;
  std::vector<Point> points_;  // by branch: the operations that the next one of the branch waits for
  std::string invalid_;        // why; empty: valid
  bool ended_ = false;
};

}  // namespace tessera::backends::simulated
