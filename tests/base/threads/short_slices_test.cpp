#include "base/threads/short_slices.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <thread>

#include "base/threads/worker_thread.h"

namespace tessera::base::short_slices_test {
namespace {

// The length of this thread's slices; 0 where the system does not say.
std::uint64_t slice_ns() {
  std::array<std::uint32_t, 12> attributes{};  // struct sched_attr: the runtime lies behind six words
  if (syscall(SYS_sched_getattr, 0, attributes.data(), sizeof(attributes), 0) != 0) return 0;
  std::uint64_t runtime = 0;
  std::memcpy(&runtime, &attributes[6], sizeof(runtime));
  return runtime;
}

TEST(ShortSlices, AreThoseOfTheThreadAndOfWhatItStarts) {
  std::thread([] {
    const std::uint64_t usual = slice_ns();
    const int nice = getpriority(PRIO_PROCESS, 0);
    ask_for_short_slices();
    EXPECT_EQ(getpriority(PRIO_PROCESS, 0), nice);
    const std::uint64_t asked = usual == 0 ? 0 : 100'000;  // a system without such slices names none
    EXPECT_EQ(slice_ns(), asked);
    std::thread([asked] { EXPECT_EQ(slice_ns(), asked); }).join();
    // Workers compute.
    pthread_join(start_worker_thread([usual] { EXPECT_EQ(slice_ns(), usual); }), nullptr);
    ask_for_usual_slices();
    EXPECT_EQ(slice_ns(), usual);
    EXPECT_EQ(getpriority(PRIO_PROCESS, 0), nice);
  }).join();
}

}  // namespace
}  // namespace tessera::base::short_slices_test
