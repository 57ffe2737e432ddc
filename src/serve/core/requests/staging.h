// Memory in which a batch forms while its requests wait: each request's thread copies its rows there, while they are in
// the caches of its core, so that nothing is left to copy when the batch is computed.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "serve/core/requests/request_queue.h"

namespace tessera::serve {

// The inputs of one batch. Its rows are given out in order, and written by who got them.
class StagingBuffer {
 public:
  // For `most_rows` rows like those of the request. Throws Error(over_budget).
  StagingBuffer(const QueuedCall& like, std::int64_t most_rows);

  const std::string& kind() const { return kind_; }
  std::int64_t used() const { return used_.load(std::memory_order_relaxed); }
  std::int64_t left() const { return most_rows_ - used(); }
  // The first of so many more rows, at most left().
  std::int64_t take(std::int64_t rows) { return used_.fetch_add(rows, std::memory_order_relaxed); }
  void clear() { used_.store(0, std::memory_order_relaxed); }
  // A view of rows that keeps `self`, which is this buffer.
  NamedValues view(const std::shared_ptr<StagingBuffer>& self, std::int64_t first, std::int64_t rows);
  // Copies the request's inputs to the rows from `first` on.
  void write(const NamedValues& inputs, std::int64_t first);

 private:
  std::string kind_;
  const std::int64_t most_rows_;
  // Rows are given out under the pool's mutex, and behind the last one by who has it in a batch; others look.
  std::atomic<std::int64_t> used_{0};
  std::map<std::string, Tensor, std::less<>> memory_;  // by the name of the input
};

// The buffers of a model. Not thread-safe, but for what stands apart.
class StagingPool {
 public:
  // `most_rows`: of a batch. `buffers`: at most so many have memory at the same time.
  StagingPool(std::int64_t most_rows, std::size_t buffers) : most_rows_(most_rows), most_buffers_(buffers) {}

  // Gives a request that will wait a place in the batch that forms. Returns false where it stays where it is, since its
  // rows are small, large, strings or of another kind than those that wait, or since all buffers are in use.
  bool reserve(QueuedCall& queued);
  // Ends the adding of rows to a batch that is computed now.
  void close(std::span<const QueuedCall> batch);
  bool keeps_memory() const { return !buffers_.empty(); }
  void release();

 private:
  std::shared_ptr<StagingBuffer> free_buffer(const QueuedCall& queued);

  const std::int64_t most_rows_;
  const std::size_t most_buffers_;
  std::vector<std::shared_ptr<StagingBuffer>> buffers_;
  std::shared_ptr<StagingBuffer> open_;
};

// Copies a request to its place, and makes its inputs views of it. Any thread, while no other uses the request.
void write_to_place(QueuedCall& queued);

// The inputs of a batch whose rows lie one behind the other in one buffer but for some, which are copied behind them;
// puts the requests in that order. Empty, with the requests in any order, where that cannot be. Their buffers are
// closed.
NamedValues staged_inputs(std::span<QueuedCall> batch);

}  // namespace tessera::serve
