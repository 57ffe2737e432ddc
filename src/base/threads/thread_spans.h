// Records which thread of the pool worked when. Traces show it beside the calling thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::base {

// The time that one thread spent in one parallel_for.
struct ThreadSpan {
  int thread = 0;                         // 0: the calling thread; else a thread of the pool, from 1 on
  std::int64_t start_ns = 0, end_ns = 0;  // on the steady clock
  std::int64_t chunks = 0;                // number of the loop's chunks that it ran
};

// Filled by the parallel loops of one thread; each of the pool's threads writes a list of its own.
class ThreadSpans {
 public:
  explicit ThreadSpans(int threads) : lists_(static_cast<std::size_t>(threads)) {}

  // Called by the thread that the span names, within a loop that has not returned yet. If memory runs out, the span is
  // left out, because a thread of the pool has nobody to report the failure to.
  void add(const ThreadSpan& span) noexcept;
  // All spans, by thread and in order of time. Not to be called during a loop.
  std::vector<ThreadSpan> all() const;

  std::int64_t origin_ns = 0;  // when the run began, on the steady clock

 private:
  std::vector<std::vector<ThreadSpan>> lists_;
};

// Makes the parallel loops of the constructing thread write into `spans` for the object's lifetime. Loops of other
// threads write nothing, at the cost of testing one pointer. `spans` must have at least as many lists as the process's
// pool has threads.
class RecordedLoops {
 public:
  explicit RecordedLoops(ThreadSpans& spans);
  ~RecordedLoops();
  RecordedLoops(const RecordedLoops&) = delete;
  RecordedLoops& operator=(const RecordedLoops&) = delete;

 private:
  ThreadSpans* before_;
};

// Where the loops of the calling thread write to, or null.
ThreadSpans* recorded_loops();

}  // namespace tessera::base
