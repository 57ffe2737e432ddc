// The memory of a GPU: one pool that grows, and pinned host memory.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/block_list.h"
#include "backends/cuda/cuda_stream.h"

namespace tessera::backends::cuda {

// Reserves addresses for all of the device's memory at the first allocation, and maps memory behind them as the pool
// grows, so that blocks of any size lie next to each other and none has to be copied.
//
// A block that is freed on a stream can be allocated for that stream at once, because the work that uses it is enqueued
// later. Other streams get such a block only if nothing else is free, and after the stream has passed the point of
// freeing.
class CudaMemory final : public DeviceMemory {
 public:
  explicit CudaMemory(CudaMachine& machine) : machine_(machine) {}
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  void* allocate(std::int64_t bytes, Stream* stream) override;
  void free(void* address, Stream* stream) noexcept override;
  std::int64_t capacity_bytes() const override { return machine_.properties().memory_bytes; }
  std::int64_t in_use_bytes() const override;
  bool contains(const void* address) const override;
  void* allocate_host(std::int64_t bytes) override;
  void free_host(void* address) noexcept override;
  bool is_pinned(const void* address) const override;
  std::int64_t pinned_bytes() const override;

  // Bytes that the pool has mapped.
  std::int64_t mapped_bytes() const;

 private:
  struct Freed {
    std::int64_t offset = 0;
    int stream = 0;
    std::shared_ptr<CudaEvent> passed;
  };
  void reserve();
  // Maps at least so many bytes behind the pool. Returns whether the device had them.
  bool grow(std::int64_t bytes);
  void take_back_passed();

  CudaMachine& machine_;
  mutable std::mutex mutex_;
  driver::DeviceAddress base_ = 0;  // 0: nothing is reserved yet
  std::int64_t reserved_bytes_ = 0, granularity_ = 0;
  BlockList blocks_;                                 // of what is mapped
  std::vector<Freed> freed_;                         // on streams that may still use them
  std::map<const std::byte*, std::int64_t> pinned_;  // bytes by address
  std::int64_t pinned_bytes_ = 0;
};

}  // namespace tessera::backends::cuda
