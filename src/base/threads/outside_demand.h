// Requests from other processes that the threads of this one leave the cores for a while. The thread pool checks for
// them between two chunks of a parallel loop.
#pragma once

#include <atomic>

namespace tessera::base {

class OutsideDemand {
 public:
  virtual ~OutsideDemand() = default;
  // Whether the threads of this process are to stop computing. Cheap; called by any thread.
  virtual bool wants_cores() = 0;
  // Blocks until it may be worth asking again. Called while the thread holds no core.
  virtual void wait() = 0;
};

// Null in a process that no other one makes requests of. The object is never destroyed.
extern std::atomic<OutsideDemand*> outside_demand;

inline bool outside_wants_cores() {
  OutsideDemand* const demand = outside_demand.load(std::memory_order_acquire);
  return demand != nullptr && demand->wants_cores();
}

}  // namespace tessera::base
