#include "io/npz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zip.h>

#include <fstream>

#include "io/npy.h"
#include "support/error_of.h"
#include "support/random_tensor.h"
#include "support/temporary_folder.h"

namespace tessera::io::npz_test {
namespace {

using test::error_of;
using testing::HasSubstr;

// Makes an archive with libzip, entries in the order given.
void make_zip(const std::filesystem::path& path, const std::vector<std::pair<std::string, std::string>>& entries,
              bool deflate) {
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  for (const auto& [name, data] : entries) {
    const zip_int64_t index =
        zip_file_add(archive, name.c_str(), zip_source_buffer(archive, data.data(), data.size(), 0), 0);
    ASSERT_GE(index, 0);
    zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), deflate ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 9);
  }
  ASSERT_EQ(zip_close(archive), 0);
}

std::string npy_file(const Tensor& tensor) {
  const NpyImage image = npy_image(tensor);
  return image.header + std::string(reinterpret_cast<const char*>(image.bytes().data()), image.bytes().size());
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

TEST(Npz, ReadsBackWhatItWrote) {
  const test::TemporaryFolder folder;
  const std::map<std::string, Tensor> arrays = {{"image", test::random_tensor(DType::f32, {1, 3, 5, 7}, 1)},
                                                {"empty", Tensor(DType::i64, {0, 4})},
                                                {"scope/名", Tensor::from<std::string>({2}, {"a", "ü"})},
                                                {"count", Tensor::scalar<std::int64_t>(-3)}};
  write_npz(folder / "a.npz", arrays);
  const std::map<std::string, Tensor> back = read_npz(folder / "a.npz");
  ASSERT_EQ(back.size(), arrays.size());
  for (const auto& [name, tensor] : arrays) EXPECT_TRUE(identical(back.at(name), tensor)) << name;
  write_npz(folder / "b.npz", arrays);
  EXPECT_EQ(contents(folder / "a.npz"), contents(folder / "b.npz"));
  const std::string bytes = contents(folder / "a.npz");
  const std::map<std::string, Tensor> from_memory = read_npz_bytes(std::as_bytes(std::span(bytes)));
  ASSERT_EQ(from_memory.size(), arrays.size());
  for (const auto& [name, tensor] : arrays) EXPECT_TRUE(identical(from_memory.at(name), tensor)) << name;
  const std::string half = bytes.substr(0, bytes.size() / 2);
  EXPECT_THAT(error_of([&] { read_npz_bytes(std::as_bytes(std::span(half))); }), HasSubstr("cannot open .npz archive"));
  write_npz(folder / "a.npz", {});
  EXPECT_TRUE(read_npz(folder / "a.npz").empty());
}

TEST(Npz, ReadsDeflatedEntries) {
  const test::TemporaryFolder folder;
  const Tensor zeros = Tensor::from<float>({1000}, std::vector<float>(1000));
  make_zip(folder / "a.npz", {{"x.npy", npy_file(zeros)}}, true);
  EXPECT_LT(contents(folder / "a.npz").size(), 400u);
  EXPECT_TRUE(identical(read_npz(folder / "a.npz").at("x"), zeros));
}

TEST(Npz, RefusesBombs) {
  const test::TemporaryFolder folder;
  const Tensor zeros(DType::u8, {1 << 20});
  make_zip(folder / "a.npz", {{"x.npy", npy_file(zeros)}, {"y.npy", npy_file(zeros)}}, true);
  EXPECT_THAT(error_of([&] { read_npz(folder / "a.npz", {.max_inflated_bytes = 1 << 20}); }),
              HasSubstr("compressed arrays of 2097408 bytes in all from "));
  EXPECT_THAT(error_of([&] { read_npz(folder / "a.npz", {.max_total_bytes = 1 << 20}); }),
              HasSubstr("arrays of 2097408 bytes in all"));
  EXPECT_THAT(error_of([&] { read_npz(folder / "a.npz", {.max_arrays = 1}); }),
              HasSubstr("2 entries, more than the limit of 1"));
}

TEST(Npz, RefusesWhatIsNotAnArchiveOfArrays) {
  const test::TemporaryFolder folder;
  const auto read = [&] { read_npz(folder / "a.npz"); };
  EXPECT_THAT(error_of(read), HasSubstr("a.npz' does not exist"));
  EXPECT_THAT(error_of([&] { read_npz(folder.path()); }), HasSubstr("not a regular file"));
  write(folder / "a.npz", "not a zip file at all");
  EXPECT_THAT(error_of(read), HasSubstr("cannot open .npz archive: Not a zip archive"));
  make_zip(folder / "a.npz", {{"readme.txt", "hello"}}, false);
  EXPECT_THAT(error_of(read), HasSubstr("entry 'readme.txt' is not an .npy array"));
  make_zip(folder / "a.npz", {{"x.npy", "hello, world"}}, false);
  EXPECT_THAT(error_of(read), HasSubstr("wrong first bytes (in entry x.npy, in file "));
  EXPECT_THAT(error_of([&] { write_npz(folder / "a.npz", {{"", Tensor::scalar<float>(1)}}); }),
              HasSubstr("without a name"));
}

TEST(Npz, DamageNeverPasses) {
  const test::TemporaryFolder folder;
  const Tensor tensor = test::random_tensor(DType::f32, {16}, 2);
  for (bool deflate : {false, true}) {
    make_zip(folder / "whole.npz", {{"x.npy", npy_file(tensor)}}, deflate);
    const std::string whole = contents(folder / "whole.npz");
    for (std::size_t at = 0; at < whole.size(); ++at) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
      write(folder / "a.npz", damaged);
      // Names, dates and attributes carry no checksum: then the arrays must be right under whatever name.
      try {
        for (const auto& [name, array] : read_npz(folder / "a.npz")) EXPECT_TRUE(identical(array, tensor)) << at;
      } catch (const Error&) {
      }
    }
    for (std::size_t size = 0; size < whole.size(); size += 7) {
      write(folder / "a.npz", whole.substr(0, size));
      EXPECT_NE(error_of([&] { read_npz(folder / "a.npz"); }), "") << size;
    }
  }
}

}  // namespace
}  // namespace tessera::io::npz_test
