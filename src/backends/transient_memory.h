// Memory that a kernel allocates itself while it runs, beside its operands and scratch: reference kernels convert whole
// tensors to wider types. It is charged to the run, so that memory limits hold for it too.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "backends/backend.h"
#include "base/numbers/checked.h"

namespace tessera::backends {

// Charges the transient memory of this thread to the allocator (null: to nobody) while this object lives; the
// destructor releases all of it.
class TransientMemory {
 public:
  explicit TransientMemory(TensorAllocator* allocator) : allocator_(allocator), outer_(std::exchange(current, this)) {}
  ~TransientMemory();
  TransientMemory(const TransientMemory&) = delete;
  TransientMemory& operator=(const TransientMemory&) = delete;

  // Charges `bytes`; to be called before the memory is allocated. Throws Error(over_budget). Calls from other threads,
  // as within a kernel's parallel loops, charge nobody.
  static void take(std::int64_t bytes);

 private:
  static thread_local TransientMemory* current;
  TensorAllocator* allocator_;
  TransientMemory* outer_;
  std::int64_t bytes_ = 0;
};

// A vector of `count` elements, charged as transient memory.
template <typename T>
std::vector<T> transient_vector(std::int64_t count, T value = {}) {
  TransientMemory::take(base::checked_multiply(count, static_cast<std::int64_t>(sizeof(T))));
  return std::vector<T>(static_cast<std::size_t>(count), value);
}

// Runs a kernel and charges its transient memory to the allocator of its run.
void run_kernel(const Kernel& kernel, KernelContext& context);

}  // namespace tessera::backends
