// The requests that wait for one model, and which of them are computed together.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "serve/core/requests/call.h"

namespace tessera::serve {

class StagingBuffer;

struct QueuedCall {
  std::shared_ptr<Call> call;
  NamedValues inputs;
  std::int64_t rows = 1;
  std::int64_t queued_ns = 0;
  std::string kind;  // requests of one kind have inputs that differ in the first dimension alone
  std::shared_ptr<StagingBuffer> staging = nullptr;  // of which the inputs are the rows from this one on; null: of none
  std::int64_t first_row = 0;
  std::int64_t postponed_ns = 0;  // when it has waited so long that others of its priority go first; 0: never
};

struct BatchingRule {
  std::int64_t most_rows = 1;
  std::int64_t delay_ns = 0;            // that a request may wait for others
  std::vector<std::int64_t> preferred;  // ascending
};

// Not thread-safe. Requests of a lower number of priority go first, and those of one priority in order of arrival.
class RequestQueue {
 public:
  explicit RequestQueue(BatchingRule rule) : rule_(std::move(rule)) {}

  void add(std::uint64_t priority, QueuedCall call);
  std::int64_t size() const { return static_cast<std::int64_t>(calls_.size()); }
  // Rows of requests that go before a new one of that priority.
  std::int64_t rows_before(std::uint64_t priority) const;

  // From now on, the requests whose time for that has come go behind all others of their priority, also those that come
  // later (Triton's timeout action DELAY).
  void postpone(std::int64_t now_ns);
  // Removes the requests that nobody waits for or whose deadline has passed.
  std::vector<QueuedCall> take_lapsed(std::int64_t now_ns);
  // The requests to compute next, of one kind, removed; empty when it is better to wait until look_again_ns(). Nothing
  // waits for others so long that a run of `run_ns` would end after its deadline.
  std::vector<QueuedCall> take_batch(std::int64_t now_ns, std::int64_t run_ns = 0);
  std::int64_t look_again_ns() const { return look_again_ns_; }
  // From now on nothing waits for others to come.
  void stop_waiting() { rule_.delay_ns = 0; }

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;  // priority; arrival, with the highest bit when postponed
  std::int64_t rows_to_take(std::int64_t rows, bool waited) const;

  BatchingRule rule_;
  std::map<Key, QueuedCall> calls_;
  std::uint64_t arrivals_ = 0;
  std::int64_t look_again_ns_ = 0;
};

}  // namespace tessera::serve
