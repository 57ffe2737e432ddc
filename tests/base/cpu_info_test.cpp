#include "base/cpu_info.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/temporary_folder.h"

namespace tessera::base::cpu_info_test {
namespace {

// The system's folder of a core with these caches: level, type, size, processors that share it.
class CpuFolder {
 public:
  CpuFolder() { write("topology/thread_siblings_list", "0,8"); }

  void add_cache(const std::string& level, const std::string& type, const std::string& size,
                 const std::string& shared) {
    const std::string folder = "cache/index" + std::to_string(count_++) + "/";
    write(folder + "level", level);
    write(folder + "type", type);
    write(folder + "size", size);
    write(folder + "shared_cpu_list", shared);
  }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((path() / name).parent_path());
    std::ofstream(path() / name) << text << '\n';
  }
  test::TemporaryFolder folder_;
  int count_ = 0;
};

TEST(CpuInfo, ReadsTheCachesOfData) {
  CpuFolder folder;
  folder.add_cache("3", "Unified", "32768K", "0-3,8-11");
  folder.add_cache("1", "Data", "48K", "0,8");
  folder.add_cache("1", "Instruction", "32K", "0,8");
  folder.add_cache("2", "Unified", "1024K", "0,8");
  const std::vector<CpuCache> caches = read_caches(folder.path());
  ASSERT_EQ(caches.size(), 3u);
  const std::int64_t bytes[] = {48 << 10, 1 << 20, 32 << 20};
  const int cores[] = {1, 1, 4};  // of two threads each
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(caches[i].level, static_cast<int>(i) + 1);
    EXPECT_EQ(caches[i].bytes, bytes[i]);
    EXPECT_EQ(caches[i].cores, cores[i]);
  }
}

TEST(CpuInfo, TakesUsualCachesWhereTheSystemSaysNothing) {
  CpuFolder folder;
  EXPECT_TRUE(read_caches(folder.path()).empty());
  folder.add_cache("1", "Data", "", "0");  // a size that is no number
  EXPECT_TRUE(read_caches(folder.path()).empty());
  EXPECT_EQ(CpuInfo().cache(2).bytes, CpuInfo::usual_caches()[1].bytes);
}

TEST(CpuInfo, KnowsACoresOwnCache) {
  CpuInfo info;
  info.caches = {{1, 32 << 10, 1}, {2, 2 << 20, 1}, {3, 32 << 20, 8}};
  EXPECT_EQ(info.own_cache().level, 2);
  info.caches = {{1, 64 << 10, 1}, {2, 4 << 20, 4}};  // a second level that four cores share
  EXPECT_EQ(info.own_cache().level, 1);
  EXPECT_EQ(info.cache(3).level, 2);  // there is none further away
  info.caches = {{1, 64 << 10, 1}, {2, 4 << 20, 1}};
  EXPECT_EQ(info.own_cache().level, 2);
  info.caches = {{1, 64 << 10, 1}, {2, 1 << 20, 1}, {3, 256 << 20, 1}};  // a machine of one core
  EXPECT_EQ(info.own_cache().level, 2);
  info.caches = {{2, 4 << 20, 2}};
  EXPECT_EQ(info.own_cache().level, 2);
}

TEST(CpuInfo, ThisMachineHasCachesThatGrow) {
  const std::vector<CpuCache>& caches = cpu_info().caches;
  ASSERT_FALSE(caches.empty());
  for (std::size_t i = 0; i < caches.size(); ++i) {
    EXPECT_GE(caches[i].cores, 1);
    EXPECT_GT(caches[i].bytes, i == 0 ? 0 : caches[i - 1].bytes);
  }
}

}  // namespace
}  // namespace tessera::base::cpu_info_test
