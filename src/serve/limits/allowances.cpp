#include "serve/limits/allowances.h"

#include <fmt/format.h>

#include <algorithm>

#include "serve/protocol/failure.h"
#include "tessera/clock.h"

namespace tessera::serve {
namespace {

constexpr std::size_t kMostCallers = 1 << 14, kMostCounted = 256;
constexpr std::int64_t kSecond_ns = 1'000'000'000;
constexpr double kRetrySeconds = 0.1;  // where requests in progress must end first

}  // namespace

// With the mutex held. Fills the caller's bucket, and throws where it, or the number in progress, allows no request.
Allowances::Caller& Allowances::look(const std::string& caller, const AllowanceRule& rule, const std::string& shown) {
  State& state = *state_;
  const std::int64_t now_ns = Clock::steady().now_ns();
  const auto refuse = [&](const std::string& why, double seconds) {
    ++state.all_refused;
    if (state.refused.contains(caller) || state.refused.size() < kMostCounted) ++state.refused[caller];
    throw Failure(Reason::rate_limited, shown + why, seconds);
  };
  if (state.callers.size() >= kMostCallers && !state.callers.contains(caller)) {
    // The bucket of one that was silent for a second is full, as that of a newcomer is.
    std::erase_if(state.callers, [&](const auto& each) {
      return each.second.in_flight == 0 && now_ns - each.second.filled_ns > kSecond_ns;
    });
    if (state.callers.size() >= kMostCallers) refuse(" is one of too many callers at a time", 1);
  }
  Caller& found = state.callers[caller];
  const double rate = rule.requests_per_second, most = std::max(rate, 1.0);
  if (rate > 0) {
    found.left = found.filled_ns == 0
                     ? most
                     : std::min(most, found.left + static_cast<double>(now_ns - found.filled_ns) * 1e-9 * rate);
  }
  found.filled_ns = now_ns;
  if (rate > 0 && found.left < 1)
    refuse(fmt::format(" has used up its {} requests a second", rate), (1 - found.left) / rate);
  if (rule.requests_in_flight > 0 && found.in_flight >= rule.requests_in_flight)
    refuse(fmt::format(" has {} requests in progress, all that it may have", found.in_flight), kRetrySeconds);
  return found;
}

Allowances::Ticket Allowances::begin(const std::string& caller, const AllowanceRule& rule, const std::string& shown) {
  if (rule.is_none()) return nullptr;
  const std::lock_guard lock(state_->mutex);
  Caller& found = look(caller, rule, shown);
  found.left -= 1;
  if (rule.requests_in_flight <= 0) return nullptr;
  ++found.in_flight;
  return {&found, [state = state_](Caller* held) {
            const std::lock_guard lock(state->mutex);
            --held->in_flight;
          }};
}

void Allowances::check(const std::string& caller, const AllowanceRule& rule, const std::string& shown) {
  if (rule.is_none()) return;
  const std::lock_guard lock(state_->mutex);
  look(caller, rule, shown);
}

std::map<std::string, std::uint64_t> Allowances::refused(bool by_caller) const {
  const std::lock_guard lock(state_->mutex);
  if (by_caller) return state_->refused;
  return {{"", state_->all_refused}};
}

}  // namespace tessera::serve
