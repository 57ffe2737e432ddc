#include "base/threads/short_slices.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace tessera::base {
namespace {

// Linux's struct sched_attr (sched_setattr(2)), which the C library of Debian 12 does not declare.
struct SchedulingAttributes {
  std::uint32_t size = sizeof(SchedulingAttributes), policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = 0, deadline_ns = 0, period_ns = 0;
};

constexpr std::uint32_t kUsualPolicy = 0;  // SCHED_OTHER, for which `runtime` is the length of slices
constexpr std::uint64_t kShortSliceNs = 100'000;

// Reads the calling thread's attributes. Returns false if it fails or the thread is under another policy.
bool read_attributes(SchedulingAttributes& attributes) {
  return syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) == 0 && attributes.policy == kUsualPolicy;
}

void set_slice(SchedulingAttributes attributes, std::uint64_t ns) {
  attributes.runtime_ns = ns;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

void ask_for_short_slices() {
  SchedulingAttributes attributes;
  if (read_attributes(attributes)) set_slice(attributes, kShortSliceNs);
}

void ask_for_usual_slices() {
  SchedulingAttributes attributes;
  if (read_attributes(attributes) && attributes.runtime_ns == kShortSliceNs) set_slice(attributes, 0);
}

}  // namespace tessera::base
