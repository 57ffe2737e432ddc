#include "base/threads/thread_spans.h"

#include <new>

namespace tessera::base {
namespace {

thread_local ThreadSpans* spans_of_this_thread = nullptr;

}  // namespace

void ThreadSpans::add(const ThreadSpan& span) noexcept {
  try {
    lists_[static_cast<std::size_t>(span.thread)].push_back(span);
  } catch (const std::bad_alloc&) {
  }
}

std::vector<ThreadSpan> ThreadSpans::all() const {
  std::vector<ThreadSpan> spans;
  for (const std::vector<ThreadSpan>& list : lists_) spans.insert(spans.end(), list.begin(), list.end());
  return spans;
}

RecordedLoops::RecordedLoops(ThreadSpans& spans) : before_(spans_of_this_thread) {
  spans_of_this_thread = &spans;
}

RecordedLoops::~RecordedLoops() {
  spans_of_this_thread = before_;
}

ThreadSpans* recorded_loops() {
  return spans_of_this_thread;
}

}  // namespace tessera::base
