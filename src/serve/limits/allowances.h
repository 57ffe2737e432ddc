// How often callers may ask, and how many of their requests may be in progress.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace tessera::serve {

struct AllowanceRule {
  double requests_per_second = 0;       // 0: not limited
  std::int64_t requests_in_flight = 0;  // 0: not limited
  bool is_none() const { return requests_per_second <= 0 && requests_in_flight <= 0; }
};

// Thread-safe. It knows a bounded number of callers: one that is silent is forgotten.
class Allowances {
 public:
  // A request in progress; its end gives the place back.
  using Ticket = std::shared_ptr<void>;

  // Counts a request. Throws Failure(rate_limited), which says when to ask again, for one beyond the rule; `shown` is
  // the caller in its message ("key 'alice'").
  Ticket begin(const std::string& caller, const AllowanceRule& rule, const std::string& shown);
  // Throws what begin() would throw, and counts nothing but the refusal.
  void check(const std::string& caller, const AllowanceRule& rule, const std::string& shown);

  // Requests that were refused, by caller; of callers that are not kept, by "".
  std::map<std::string, std::uint64_t> refused(bool by_caller) const;

 private:
  struct Caller {
    double left = 0;  // a token bucket that holds the requests of one second
    std::int64_t filled_ns = 0, in_flight = 0;
  };
  struct State {
    mutable std::mutex mutex;
    std::map<std::string, Caller> callers;
    std::map<std::string, std::uint64_t> refused;
    std::uint64_t all_refused = 0;
  };
  Caller& look(const std::string& caller, const AllowanceRule& rule, const std::string& shown);

  const std::shared_ptr<State> state_ = std::make_shared<State>();  // tickets may outlive this
};

}  // namespace tessera::serve
