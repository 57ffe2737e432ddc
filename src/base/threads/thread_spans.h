// Which thread of the pool worked when: what traces show beside the calling thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::base {

// The time that one thread spent in one parallel_for.
struct ThreadSpan {
  int thread = 0;                         // 0: the calling thread; else a thread of the pool, from 1 on
  std::int64_t start_ns = 0, end_ns = 0;  // on the steady clock
  std::int64_t chunks = 0;                // of the loop's that it ran
};

// Filled by the parallel loops of one thread; each of the pool's threads writes a list of its own.
class ThreadSpans {
 public:
  explicit ThreadSpans(int threads) : lists_(static_cast<std::size_t>(threads)) {}

  // By the thread that the span names, within a loop that has not returned yet. Where there is no memory for it, the
  // span is left out: a thread of the pool has nobody to tell.
  void add(const ThreadSpan& span) noexcept;
  // All spans, by thread and then in order; between loops.
  std::vector<ThreadSpan> all() const;

  std::int64_t origin_ns = 0;  // when the run began to which the spans belong, on the steady clock

 private:
  std::vector<std::vector<ThreadSpan>> lists_;
};

// While it lives, the parallel loops of the thread that made it write into `spans`. Without one they write nothing: a
// loop then tests one pointer. The process's pool has no more threads than `spans` has lists.
class RecordedLoops {
 public:
  explicit RecordedLoops(ThreadSpans& spans);
  ~RecordedLoops();
  RecordedLoops(const RecordedLoops&) = delete;
  RecordedLoops& operator=(const RecordedLoops&) = delete;

 private:
  ThreadSpans* before_;
};

// Where the loops of the calling thread write to; null: nowhere.
ThreadSpans* recorded_loops();

}  // namespace tessera::base
