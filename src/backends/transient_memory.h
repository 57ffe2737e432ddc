// Memory that a kernel takes for itself while it runs, beside its operands and scratch: the reference kernels widen
// whole tensors. It is charged like everything else, so that a limit holds for it too.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "backends/backend.h"
#include "base/numbers/checked.h"

namespace tessera::backends {

// While it lives, transient memory of this thread is charged to the allocator (null: to nobody); the end gives
// everything back.
class TransientMemory {
 public:
  explicit TransientMemory(TensorAllocator* allocator) : allocator_(allocator), outer_(std::exchange(current, this)) {}
  ~TransientMemory();
  TransientMemory(const TransientMemory&) = delete;
  TransientMemory& operator=(const TransientMemory&) = delete;

  // To be called before the memory is taken; throws Error(over_budget). What is called for in parts of a kernel that
  // run on other threads is charged to nobody.
  static void take(std::int64_t bytes);

 private:
  static thread_local TransientMemory* current;
  TensorAllocator* allocator_;
  TransientMemory* outer_;
  std::int64_t bytes_ = 0;
};

// A vector of `count` elements that are charged as transient memory.
template <typename T>
std::vector<T> transient_vector(std::int64_t count, T value = {}) {
  TransientMemory::take(base::checked_multiply(count, static_cast<std::int64_t>(sizeof(T))));
  return std::vector<T>(static_cast<std::size_t>(count), value);
}

// Runs a kernel with its transient memory charged to the allocator of its run.
void run_kernel(const Kernel& kernel, KernelContext& context);

}  // namespace tessera::backends
