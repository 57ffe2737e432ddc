#include "base/file_pages.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <vector>

#include "support/temporary_folder.h"

namespace tessera::base::file_pages_test {
namespace {

constexpr std::size_t kBytes = std::size_t{8} << 20;

// Pages of the range that are in this process's memory.
std::size_t resident_pages(const std::byte* begin) {
  std::ifstream file("/proc/self/pagemap", std::ios::binary);
  std::vector<std::uint64_t> entries(kBytes / 4096);
  file.seekg(static_cast<std::streamoff>(reinterpret_cast<std::uintptr_t>(begin) / 4096 * 8));
  file.read(reinterpret_cast<char*>(entries.data()), static_cast<std::streamsize>(entries.size() * 8));
  EXPECT_TRUE(file.good());
  return static_cast<std::size_t>(
      std::count_if(entries.begin(), entries.end(), [](std::uint64_t entry) { return entry >> 63 != 0; }));
}

TEST(FilePages, GoBackAndComeAgain) {
  const test::TemporaryFolder folder;
  const int file = open((folder / "pages").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_GE(file, 0);
  const std::vector<char> sevens(kBytes, 7);
  ASSERT_EQ(write(file, sevens.data(), kBytes), static_cast<ssize_t>(kBytes));
  auto* data = static_cast<std::byte*>(mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE, file, 0));
  ASSERT_NE(data, MAP_FAILED);
  add_file_mapping(data, kBytes);
  EXPECT_EQ(std::memcmp(data, sevens.data(), kBytes), 0);
  EXPECT_EQ(resident_pages(data), kBytes / 4096);
  release_file_pages(data + 100, kBytes - 200);  // all but the first and the last page
  EXPECT_LE(resident_pages(data), 2u);
  EXPECT_EQ(std::memcmp(data, sevens.data(), kBytes), 0);
  release_file_pages(data, kBytes + 4096);  // not all of it is the file's
  EXPECT_EQ(resident_pages(data), kBytes / 4096);
  remove_file_mapping(data);
  release_file_pages(data, kBytes);
  EXPECT_EQ(resident_pages(data), kBytes / 4096);
  munmap(data, kBytes);
  close(file);
}

TEST(FilePages, OfOtherMemoryStay) {
  std::vector<char> ordinary(kBytes, 7);
  release_file_pages(ordinary.data(), ordinary.size());
  EXPECT_EQ(std::count(ordinary.begin(), ordinary.end(), 7), static_cast<std::ptrdiff_t>(kBytes));
}

}  // namespace
}  // namespace tessera::base::file_pages_test
