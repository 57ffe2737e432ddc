#include "backends/simulated/options.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace tessera::test::simulated_options_test {
namespace {

using backends::simulated::Compute;
using backends::simulated::Options;
using backends::simulated::parse_options;

TEST(SimulatedOptions, DefaultsAreTheProfiles) {
  const Options options = parse_options("simulated:h100-sxm");
  EXPECT_EQ(options.profile.name, "h100-sxm");
  EXPECT_EQ(options.compute, Compute::reference);
  EXPECT_EQ(options.memory_bytes, 80'000'000'000);
  EXPECT_EQ(options.streams, 4);
  EXPECT_EQ(options.faults.failing_allocation, 0);
  EXPECT_EQ(options.faults.failing_launch, 0);
  EXPECT_EQ(options.faults.copy_slowdown, 1);
}

TEST(SimulatedOptions, EveryOptionOnce) {
  const Options options = parse_options(
      "simulated:t4,compute=cpu,memory=1.5GiB,seed=3,number=2,fault=allocation:4,fault=launch:5,fault=slow_copies:2.5");
  EXPECT_EQ(options.compute, Compute::cpu);
  EXPECT_EQ(options.memory_bytes, 1'610'612'736);
  EXPECT_EQ(options.seed, 3U);
  EXPECT_EQ(options.number, 2);
  EXPECT_EQ(options.faults.failing_allocation, 4);
  EXPECT_EQ(options.faults.failing_launch, 5);
  EXPECT_EQ(options.faults.copy_slowdown, 2.5);
  EXPECT_EQ(parse_options("simulated:t4,compute=none").compute, Compute::none);
  EXPECT_EQ(parse_options("simulated:t4,memory=4096").memory_bytes, 4096);
  EXPECT_EQ(parse_options("simulated:t4,streams=2").streams, 2);
}

TEST(SimulatedOptions, EqualDevicesHaveEqualNames) {
  const auto name = [](const char* given) { return name_of(parse_options(given)); };
  EXPECT_EQ(name("simulated:h100"), "simulated:h100-sxm");
  EXPECT_EQ(name("simulated:h100-sxm,compute=reference,memory=80GB"), "simulated:h100-sxm");
  EXPECT_EQ(name("simulated:t4,number=1,compute=cpu"), name("simulated:t4,compute=cpu,number=1"));
  const char* all =
      "simulated:t4,compute=none,memory=4096,seed=3,number=2,streams=2,shuffle=6,fault=allocation:4,fault=launch:5,"
      "fault=slow_copies:2.5";
  EXPECT_EQ(name(all), all);
  EXPECT_EQ(name("simulated:t4,streams=4"), "simulated:t4");
}

TEST(SimulatedOptions, RefusesWhatItDoesNotKnow) {
  const auto refuses = [](const char* name, const char* message) {
    SCOPED_TRACE(name);
    expect_error_containing(ErrorKind::invalid_argument, message, [&] { parse_options(name); });
  };
  refuses("simulated",
          "device 'simulated' does not say which device it simulates; expected simulated:PROFILE, such as "
          "simulated:h100-sxm");
  refuses("simulated:", "does not say which device it simulates");
  refuses("simulated:h100-smx", "there is no device 'h100-smx'; there are a10, ");
  refuses("simulated:h100-smx,compute=cpu", "did you mean 'h100-sxm'?");
  refuses("simulated:t4,comput=cpu",
          "device 'simulated:t4,comput=cpu': there is no option 'comput'; options: compute=");
  refuses("simulated:t4,compute=gpu", "'compute=gpu' is not compute=reference, compute=cpu or compute=none");
  refuses("simulated:t4,memory=many", "'memory=many' is not a size of at most 16 TiB, such as 16GB or 512MiB");
  refuses("simulated:t4,memory=0", "'memory=0' is not a size");
  refuses("simulated:t4,memory=1XB", "'memory=1XB' is not a size");
  refuses("simulated:t4,memory=17TiB", "'memory=17TiB' is not a size");
  refuses("simulated:t4,streams=0", "'streams=0' is not a count from 1 on");
  refuses("simulated:t4,streams=129", "'streams=129' is not a count of at most 128");
  refuses("simulated:t4,seed=-1", "'seed=-1' is not a whole number that is not negative");
  refuses("simulated:t4,fault=launch:0", "'fault=launch:0' is not a count from 1 on");
  refuses("simulated:t4,fault=launch", "'fault=launch' is not a count from 1 on");
  refuses("simulated:t4,fault=fire:1",
          "'fault=fire:1' is not fault=allocation:N, fault=launch:N or fault=slow_copies:FACTOR");
  refuses("simulated:t4,fault=slow_copies:0.5", "'fault=slow_copies:0.5' is not slow_copies with a factor from 1");
  expect_error_containing(ErrorKind::not_found, "gone.toml", [] { parse_options("simulated:/nowhere/gone.toml"); });
}

}  // namespace
}  // namespace tessera::test::simulated_options_test
