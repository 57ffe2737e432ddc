#include "backends/transient_memory.h"

namespace tessera::backends {

thread_local TransientMemory* TransientMemory::current = nullptr;

TransientMemory::~TransientMemory() {
  current = outer_;
  if (allocator_ != nullptr && bytes_ > 0) allocator_->release(bytes_);
}

void TransientMemory::take(std::int64_t bytes) {
  if (current == nullptr || current->allocator_ == nullptr) return;
  current->allocator_->charge(bytes);
  current->bytes_ += bytes;
}

void run_kernel(const Kernel& kernel, KernelContext& context) {
  const TransientMemory memory(context.resources().allocator);
  kernel.run(context);
}

}  // namespace tessera::backends
