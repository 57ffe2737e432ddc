// The arenas of a run of a background process, which its job borrows from the sharing daemon.
#pragma once

#include <algorithm>

#include "lease/attachment.h"
#include "runtime/memory/run_memory.h"
#include "runtime/memory/spill_file.h"

namespace tessera::runtime {

class ProcessMemory final : public RunMemory {
 public:
  explicit ProcessMemory(lease::Attachment& attachment) : attachment_(attachment) {}

  bool try_take(std::int64_t bytes, bool) override {
    if (!attachment_.borrow(bytes, quiet_ns_)) return false;
    quiet_ns_ = 0;
    return true;
  }
  void wait() override { Clock::steady().sleep_until(Clock::steady().now_ns() + kLookNs); }
  void give_back(std::int64_t bytes) noexcept override { attachment_.give_back(bytes); }
  std::int64_t wanted_bytes() const noexcept override { return attachment_.wanted_bytes(); }
  const std::string& spill_folder() const noexcept override { return folder_; }
  void spilled(std::int64_t, std::int64_t took_ns) noexcept override {
    quiet_ns_ = std::min(took_ns, kMostQuietNs);
    attachment_.count_spill();
  }
  bool is_of_process() const noexcept override { return true; }

 private:
  static constexpr std::int64_t kLookNs = 5'000'000;

  lease::Attachment& attachment_;
  const std::string folder_ = default_spill_folder();
  std::int64_t quiet_ns_ = 0;
};

}  // namespace tessera::runtime
