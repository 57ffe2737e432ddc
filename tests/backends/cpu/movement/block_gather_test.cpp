#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>

#include "base/file_pages.h"
#include "base/numbers/block_format.h"
#include "support/against_reference.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/temporary_folder.h"

namespace tessera::test::block_gather_test {
namespace {

constexpr const char* kKernel = "cpu_block_gather";

OpCall gather(const base::BlockLayout& layout, const Tensor& table, std::int64_t rows, std::int64_t k,
              const Tensor& indices) {
  return {"tessera::BlockGather", {table, indices}, {{"format", std::string(layout.name)}, {"N", rows}, {"K", k}}};
}

// Bytes whose scales are small numbers in every format.
Tensor table_of(const base::BlockLayout& layout, std::int64_t rows, std::int64_t k) {
  Tensor table(DType::u8, {rows * k / layout.elements * layout.bytes});
  const std::span<std::uint8_t> bytes = table.mutable_values<std::uint8_t>();
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 37 % 59);
  return table;
}

TEST(CpuBlockGather, MatchesReferenceForAllFormats) {
  for (const base::BlockLayout& layout : base::block_layouts()) {
    SCOPED_TRACE(std::string(layout.name));
    const Tensor table = table_of(layout, 9, 512);
    expect_matches_reference(gather(layout, table, 9, 512, Tensor::from<std::int64_t>({3}, {8, -9, 4})), {0, 0});
    expect_matches_reference(gather(layout, table, 9, 512, Tensor::from<std::int32_t>({2, 1}, {-1, 0})), {0, 0});
    Tensor many(DType::i64, {131});
    for (std::int64_t i = 0; i < 131; ++i) many.mutable_data<std::int64_t>()[i] = i * 5 % 9;
    expect_matches_reference(gather(layout, table, 9, 512, many), {0, 0});
  }
}

TEST(CpuBlockGather, RefusesRowsThatTheTableHasNot) {
  const base::BlockLayout& layout = base::layout_of(base::BlockFormat::q4_1);
  const OpCall call = gather(layout, table_of(layout, 9, 64), 9, 64, Tensor::from<std::int64_t>({2}, {0, 9}));
  expect_error_containing(ErrorKind::failed, "index 9 is outside [-9, 9)", [&] { run_op_tensor_by(call, kKernel); });
}

TEST(CpuBlockGather, GivesBackThePagesOfATableInAFile) {
  const base::BlockLayout& layout = base::layout_of(base::BlockFormat::q8_0);
  constexpr std::int64_t kRows = 4096, kSize = 1024;
  const Tensor table = table_of(layout, kRows, kSize);
  const auto bytes = static_cast<std::size_t>(table.bytes());
  const TemporaryFolder folder;
  const int file = open((folder / "table").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_GE(file, 0);
  ASSERT_EQ(write(file, table.raw(), bytes), static_cast<ssize_t>(bytes));
  void* const data = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  ASSERT_NE(data, MAP_FAILED);
  base::add_file_mapping(data, bytes);
  {
    const Tensor mapped(DType::u8, table.shape(), data, std::make_shared<int>(0));
    Tensor indices(DType::i64, {kRows});
    for (std::int64_t i = 0; i < kRows; ++i) indices.mutable_data<std::int64_t>()[i] = i;
    const Tensor y = run_op_tensor_by(gather(layout, mapped, kRows, kSize, indices), kKernel);
    EXPECT_TRUE(identical(y, run_op_tensor_by(gather(layout, table, kRows, kSize, indices), kKernel)));
  }
  std::ifstream map("/proc/self/pagemap", std::ios::binary);
  std::vector<std::uint64_t> pages(bytes / 4096);
  map.seekg(static_cast<std::streamoff>(reinterpret_cast<std::uintptr_t>(data) / 4096 * 8));
  map.read(reinterpret_cast<char*>(pages.data()), static_cast<std::streamsize>(pages.size() * 8));
  ASSERT_TRUE(map.good());
  EXPECT_LE(std::ranges::count_if(pages, [](std::uint64_t page) { return page >> 63 != 0; }),
            static_cast<std::ptrdiff_t>(pages.size() / 8));
  base::remove_file_mapping(data);
  munmap(data, bytes);
  close(file);
}

}  // namespace
}  // namespace tessera::test::block_gather_test
