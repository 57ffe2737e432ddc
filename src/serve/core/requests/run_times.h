// How long a model's runs take: what a server expects of the next one.
#pragma once

#include <cstdint>
#include <map>

namespace tessera::serve {

// By the number of rows, a moving average of the latest runs. A run that follows a pause counts alone, so that what was
// measured on a machine that was stopped or overloaded for a while is forgotten. Not thread-safe.
class RunTimes {
 public:
  void add(std::int64_t rows, std::int64_t run_ns, std::int64_t now_ns);
  // The time that a run of so many rows is expected to take: that of a measured batch of as many rows or more, but no
  // longer than one of fewer in proportion. 0 before any run.
  std::int64_t predicted_ns(std::int64_t rows) const;
  // Whether the last run was so long ago that predictions should be tried anew.
  bool is_stale(std::int64_t now_ns) const;

 private:
  std::map<std::int64_t, std::int64_t> run_ns_;
  std::int64_t last_ns_ = 0;  // when the latest run had ended
};

}  // namespace tessera::serve
