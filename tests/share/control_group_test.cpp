#include "share/control_group.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "support/temporary_folder.h"

namespace tessera::share::control_group_test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMounts =
    "25 1 0:22 / /proc rw - proc proc rw\n"
    "31 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "32 25 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    "33 25 0:29 /docker/abc /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* kGroups = "4:cpuset:/elsewhere\n3:cpu,cpuacct:/user\n0::/docker/abc/inner\n";

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A folder that takes settings as files, with what the kernel puts into one of version 2.
class FakeGroups {
 public:
  explicit FakeGroups(const std::string& controllers) {
    std::ofstream(folder() / "cgroup.controllers") << controllers;
    std::ofstream(folder() / "cgroup.subtree_control") << "";
  }
  fs::path folder() const { return folder_.path(); }
  std::string setting(const char* name) const {
    return text_of(folder() / ("tessera-job-" + std::to_string(getpid())) / name);
  }

 private:
  test::TemporaryFolder folder_;
};

TEST(ControlGroup, FindsThePlacesOfBothVersions) {
  const std::vector<GroupPlace> places = group_places(kMounts, kGroups);
  ASSERT_EQ(places.size(), 2u);
  EXPECT_EQ(places[0].version, 2);
  EXPECT_EQ(places[0].folder, "/sys/fs/cgroup/unified/inner");
  EXPECT_EQ(places[1].version, 1);
  EXPECT_EQ(places[1].folder, "/sys/fs/cgroup/cpu,cpuacct/user");
  EXPECT_TRUE(group_places("", kGroups).empty());
  EXPECT_TRUE(group_places(kMounts, "").empty());
}

TEST(ControlGroup, WritesTheSettingsOfVersion2) {
  const FakeGroups groups("cpuset cpu io\n");
  EXPECT_EQ(join_group({groups.folder(), 2}, {.weight = 0.6, .quota_cores = 0.6}), std::nullopt);
  EXPECT_EQ(text_of(groups.folder() / "cgroup.subtree_control"), "+cpu");
  EXPECT_EQ(groups.setting("cpu.weight"), "60");
  EXPECT_EQ(groups.setting("cpu.max"), "12000 20000");
  EXPECT_EQ(groups.setting("cgroup.procs"), std::to_string(getpid()));
}

TEST(ControlGroup, WritesTheSettingsOfVersion1) {
  const FakeGroups groups("");
  EXPECT_EQ(join_group({groups.folder(), 1}, {.weight = 1.4, .quota_cores = 0.01}), std::nullopt);
  EXPECT_EQ(groups.setting("cpu.shares"), "1434");
  // The least that the kernel takes is 1 ms.
  EXPECT_EQ(groups.setting("cpu.cfs_quota_us"), "1000");
  EXPECT_EQ(groups.setting("cpu.cfs_period_us"), "100000");
}

TEST(ControlGroup, BackgroundHasNoWeight) {
  const FakeGroups groups("cpu");
  EXPECT_EQ(join_group({groups.folder(), 2}, {.weight = 30, .idle = true}), std::nullopt);
  EXPECT_EQ(groups.setting("cpu.idle"), "1");
  EXPECT_EQ(groups.setting("cpu.weight"), "");
  EXPECT_EQ(groups.setting("cpu.max"), "");
}

TEST(ControlGroup, SaysWhyItIsNotPossible) {
  const FakeGroups groups("memory");
  EXPECT_EQ(join_group({groups.folder(), 2}, {}),
            "the control group '" + groups.folder().string() + "' has no cpu controller");
  const std::optional<std::string> refused = join_group({groups.folder() / "missing", 1}, {});
  ASSERT_TRUE(refused.has_value());
  EXPECT_NE(refused->find("no group can be made in"), std::string::npos) << *refused;
}

}  // namespace
}  // namespace tessera::share::control_group_test
