#include "generate/page_pool.h"

#include "base/error.h"

namespace tessera::generate {

PagePool::PagePool(std::int64_t pages, std::int64_t page_rows, std::int64_t most_columns)
    : page_rows_(page_rows), most_columns_(most_columns) {
  for (std::int64_t page = pages; page > 0; --page) free_.push_back(page - 1);
}

std::int64_t PagePool::open() {
  sequences_[next_] = {};
  return next_++;
}

const PagePool::Sequence& PagePool::find(std::int64_t sequence) const {
  const auto found = sequences_.find(sequence);
  require(found != sequences_.end(), ErrorKind::invalid_argument, "sequence {} is not open", sequence);
  return found->second;
}

void PagePool::close(std::int64_t sequence) {
  truncate(sequence, 0);
  sequences_.erase(sequence);
}

std::int64_t PagePool::length(std::int64_t sequence) const {
  return find(sequence).length;
}

const std::vector<std::int64_t>& PagePool::pages(std::int64_t sequence) const {
  return find(sequence).pages;
}

std::int64_t PagePool::append(std::int64_t sequence) {
  find(sequence);
  Sequence& held = sequences_.at(sequence);
  if (held.length == static_cast<std::int64_t>(held.pages.size()) * page_rows_) {
    require(static_cast<std::int64_t>(held.pages.size()) < most_columns_, ErrorKind::invalid_argument,
            "a sequence has {} tokens, which is all that it may have", held.length);
    if (free_.empty()) take_lent_page();
    require(!free_.empty(), ErrorKind::over_budget,
            "all pages of the cache of keys and values are taken: end other answers, or ask for a larger cache");
    held.pages.push_back(free_.back());
    free_.pop_back();
  }
  return held.length++;
}

void PagePool::set_idle(std::int64_t sequence, bool idle) {
  find(sequence);
  sequences_.at(sequence).idle_since = idle ? ++idle_calls_ : 0;
}

void PagePool::take_lent_page() {
  std::int64_t longest = -1, since = 0;
  for (const auto& [number, each] : sequences_) {
    const bool lends = each.idle_since > 0 && !each.pages.empty();
    if (lends && (longest < 0 || each.idle_since < since)) longest = number, since = each.idle_since;
  }
  if (longest >= 0) truncate(longest, (static_cast<std::int64_t>(pages(longest).size()) - 1) * page_rows_);
}

void PagePool::truncate(std::int64_t sequence, std::int64_t length) {
  find(sequence);
  Sequence& held = sequences_.at(sequence);
  held.length = length;
  const auto needed = static_cast<std::size_t>((length + page_rows_ - 1) / page_rows_);
  while (held.pages.size() > needed) {
    free_.push_back(held.pages.back());
    held.pages.pop_back();
  }
}

}  // namespace tessera::generate
