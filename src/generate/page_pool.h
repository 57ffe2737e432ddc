// The pages of a cache of keys and values, and which sequences hold them.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace tessera::generate {

// Not thread-safe.
class PagePool {
 public:
  // `most_columns`: the most pages of one sequence.
  PagePool(std::int64_t pages, std::int64_t page_rows, std::int64_t most_columns);

  std::int64_t open();
  // Gives the pages of the sequence back. Throws Error(invalid_argument) for a sequence that is not open.
  void close(std::int64_t sequence);
  std::int64_t length(std::int64_t sequence) const;  // throws as close()
  // An idle sequence lends its pages: where no page is free, the sequence that has been idle longest gives its last one
  // up and becomes shorter. A sequence that goes on must not be idle.
  void set_idle(std::int64_t sequence, bool idle);
  std::int64_t free_pages() const { return static_cast<std::int64_t>(free_.size()); }

  // Appends a position and returns it; takes a page when it is the first one of a page. Throws Error: over_budget where
  // no page is free or lent, invalid_argument where the sequence has as many positions as its pages hold.
  std::int64_t append(std::int64_t sequence);
  // Takes the last positions back until `length` are left, and gives back the pages that they leave empty.
  void truncate(std::int64_t sequence, std::int64_t length);
  // The pages of the sequence in order.
  const std::vector<std::int64_t>& pages(std::int64_t sequence) const;

 private:
  struct Sequence {
    std::int64_t length = 0;
    std::vector<std::int64_t> pages;
    std::int64_t idle_since = 0;  // the number of the call of set_idle; 0: it is not idle
  };
  const Sequence& find(std::int64_t sequence) const;
  void take_lent_page();

  const std::int64_t page_rows_, most_columns_;
  std::vector<std::int64_t> free_;  // the page that was freed last is the next one
  std::map<std::int64_t, Sequence> sequences_;
  std::int64_t next_ = 0, idle_calls_ = 0;
};

}  // namespace tessera::generate
