#include "dist/scaling/cluster_profile.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace tessera::dist::cluster_profile_test {
namespace {

constexpr std::string_view kText = R"(
name = "mine"
device = "a100-40-sxm"
[node]
gpus = 4
latency_us = 2
bandwidth_gb_s = 100
[network]
latency_us = 10
bandwidth_gb_s = 12.5
[step]
kernel_us = 12
recurrent_step_us = 3
launch_us = 20
)";

std::string with(std::string_view what, std::string_view by) {
  std::string text(kText);
  return text.replace(text.find(what), what.size(), by);
}

TEST(ClusterProfile, FilesStateUnits) {
  const ClusterProfile cluster = parse_cluster_profile(kText, "mine.toml");
  EXPECT_EQ(cluster.gpus_per_node, 4);
  EXPECT_DOUBLE_EQ(cluster.node_link.latency_seconds, 2e-6);
  EXPECT_DOUBLE_EQ(cluster.network_link.bytes_per_second, 12.5e9);
  EXPECT_DOUBLE_EQ(cluster.kernel_seconds, 12e-6);
  EXPECT_EQ(cluster.switch_radix, 0);
  EXPECT_EQ(cluster.device.name, "a100-40-sxm");
}

TEST(ClusterProfile, BuiltInOnesAreFoundByName) {
  ASSERT_GE(built_in_clusters().size(), 2u);
  EXPECT_EQ(load_cluster("dgxa100").gpus_per_node, 8);
  test::expect_error_containing(ErrorKind::invalid_argument, "did you mean 'dgxa100'?", [] { load_cluster("dgxa10"); });
  test::expect_error_containing(ErrorKind::invalid_argument, "there are dgxa100, dgxh100",
                                [] { load_cluster("cloud"); });
  test::expect_error_containing(ErrorKind::not_found, "nowhere.toml", [] { load_cluster("nowhere.toml"); });
}

TEST(ClusterProfile, FaultsAreNamed) {
  const auto refused = [](const std::string& text, const char* message) {
    test::expect_error_containing(ErrorKind::invalid_argument, message, [&] { parse_cluster_profile(text, "c.toml"); });
  };
  refused(with("gpus = 4", ""), "c.toml [node]: 'gpus' is missing; expected a whole number from 1 to 1024");
  refused(with("gpus = 4", "gpus = 0"), "'gpus' is 0");
  refused(with("12.5", "0"), "c.toml [network]: 'bandwidth_gb_s' is 0");
  refused(with("12.5", "nan"), "'bandwidth_gb_s' is nan");
  refused(with("12.5", "inf"), "'bandwidth_gb_s' is inf");
  refused(with("kernel_us = 12", "kernel_us = -1"), "'kernel_us' is -1");
  refused(with("a100-40-sxm", "b2000"), "there is no device 'b2000'");
  refused(with("launch_us", "lunch_us"), "launch_us' is missing");
  refused(with("[step]", "radix = 4\n[step]"), "radix is unknown");
  refused("name = ", "c.toml");
}

}  // namespace
}  // namespace tessera::dist::cluster_profile_test
