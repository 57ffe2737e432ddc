#include "serve/limits/body_budget.h"

#include <utility>

namespace tessera::serve {
namespace {

constexpr double kLeastSeconds = 1;     // a shorter transfer has no speed yet
constexpr double kEndingSeconds = 0.5;  // one that was asked to end may take so long, until others are asked as well

}  // namespace

bool BodyBudget::abandon_slowest() {
  std::unique_lock lock(mutex_);
  Lease* slowest = nullptr;
  double least = 0;
  const auto now = Lease::Clock::now();
  for (Lease* const lease : transfers_) {
    const double ending = std::chrono::duration<double>(now - lease->asked_).count();
    if (lease->held() > 0 && ending < kEndingSeconds) return true;
    const double seconds = std::chrono::duration<double>(now - lease->began_).count();
    if (seconds < kLeastSeconds || !lease->abandon_) continue;
    const double speed = static_cast<double>(lease->moved_.load()) / seconds;
    if (slowest == nullptr || speed < least) slowest = lease, least = speed;
  }
  if (slowest == nullptr) return false;
  const std::function<void()> abandon = std::exchange(slowest->abandon_, nullptr);
  slowest->asked_ = now;
  lock.unlock();  // what it ends may end the lease
  abandon();
  return true;
}

BodyBudget::Lease::~Lease() {
  end_transfer();
  release();
}

bool BodyBudget::Lease::take(std::int64_t bytes) {
  if (budget_.used_.fetch_add(bytes) + bytes > budget_.limit_) {
    budget_.used_.fetch_sub(bytes);
    return false;
  }
  held_.fetch_add(bytes);
  return true;
}

void BodyBudget::Lease::give(std::int64_t bytes) {
  held_.fetch_sub(bytes);
  budget_.used_.fetch_sub(bytes);
}

void BodyBudget::Lease::release() {
  budget_.used_.fetch_sub(held_.exchange(0));
}

void BodyBudget::Lease::begin_transfer(std::function<void()> abandon) {
  const std::lock_guard lock(budget_.mutex_);
  abandon_ = std::move(abandon);
  began_ = Clock::now();
  asked_ = {};
  moved_ = 0;
  if (std::exchange(is_transfer_, true)) return;
  place_ = budget_.transfers_.insert(budget_.transfers_.end(), this);
}

void BodyBudget::Lease::end_transfer() {
  if (!is_transfer_) return;  // only the strand itself sets it
  const std::lock_guard lock(budget_.mutex_);
  is_transfer_ = false;
  abandon_ = nullptr;
  budget_.transfers_.erase(place_);
}

}  // namespace tessera::serve
