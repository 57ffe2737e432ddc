// A device that is no host, for tests of plans and runs: its memory is the host's under addresses of its own books, and
// what is enqueued on a stream is done only when somebody waits for it, so that a host that does not wait is found out.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "backends/backend.h"

namespace tessera::test {

class QueuedDevice final : public backends::Device {
 public:
  // `lacks`: operators that it has no kernels for. `fallback`: the host device that runs these; null: the CPU.
  explicit QueuedDevice(std::set<std::string, std::less<>> lacks = {}, std::int64_t capacity_bytes = INT64_MAX,
                        const backends::Device* fallback = nullptr);
  ~QueuedDevice() override;

  // What was done so far.
  struct Counts {
    std::atomic<int> to_device{0}, to_host{0}, within{0}, kernels{0}, recordings{0}, replays{0};
  };
  Counts& counts() const { return counts_; }
  // The kernel that runs after so many others fails; negative: none.
  std::atomic<int>& kernels_until_failure() const { return kernels_until_failure_; }
  const backends::Device& host_fallback() const override;

  std::string_view name() const override { return "queued"; }
  std::span<const backends::KernelEntry* const> kernels_for(std::string_view op) const override;
  backends::KernelPointer make_kernel(const backends::KernelEntry& entry, const ops::NodeView& view,
                                      backends::WeightStore& weights) const override;
  bool supports_float16() const override { return false; }
  bool flushes_denormals() const override { return true; }
  bool is_host() const override { return false; }
  std::unique_ptr<backends::Stream> make_stream() const override;
  std::unique_ptr<backends::Event> make_event() const override;
  backends::DeviceMemory& memory() const override { return *memory_; }
  bool can_capture() const override { return true; }
  double copy_seconds(std::int64_t bytes) const override { return 1e-5 + static_cast<double>(bytes) * 1e-10; }

 private:
  const std::set<std::string, std::less<>> lacks_;
  const backends::Device* const fallback_;
  mutable Counts counts_;
  mutable std::atomic<int> kernels_until_failure_{-1};
  std::unique_ptr<backends::DeviceMemory> memory_;
};

}  // namespace tessera::test
