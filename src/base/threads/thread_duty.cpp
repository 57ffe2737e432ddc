#include "base/threads/thread_duty.h"

#include "base/threads/yield_point.h"

namespace tessera::base {

namespace {
thread_local ThreadDuty* own_duty = nullptr;
}

OnDuty::OnDuty(ThreadDuty& duty) : former_(own_duty) {
  own_duty = &duty;
  // Yield points call a thread's duty only while this number is not 0.
  detail::preempting_pools.fetch_add(1, std::memory_order_relaxed);
}

OnDuty::~OnDuty() {
  own_duty = former_;
  detail::preempting_pools.fetch_sub(1, std::memory_order_relaxed);
}

void detail::see_to_own_duty() noexcept {
  if (own_duty != nullptr) own_duty->see_to();
}

}  // namespace tessera::base
