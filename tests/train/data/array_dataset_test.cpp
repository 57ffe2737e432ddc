#include "train/data/array_dataset.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "io/npz.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/temporary_folder.h"
#include "train/data/images/byte_pictures.h"
#include "train/data/sample_support.h"

namespace tessera::train::array_dataset_test {
namespace {

using test::expect_error_containing;
using test::read_sample;

// Two pictures of 2 × 3 pixels.
std::vector<std::uint8_t> idx_pictures() {
  return {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3, 0, 51, 102, 153, 204, 255, 255, 204, 153, 102, 51, 0};
}
std::vector<std::uint8_t> idx_labels() {
  return {0, 0, 8, 1, 0, 0, 0, 2, 7, 9};
}

TEST(ArrayDataset, RowsOfAnArchiveAreSamples) {
  const test::TemporaryFolder folder;
  const Tensor x = test::random_tensor(DType::f32, {5, 2, 3}, 1);
  const Tensor y = Tensor::from<std::int64_t>({5}, {4, 3, 2, 1, 0});
  io::write_npz(folder / "d.npz", {{"x", x}, {"y", y}});
  const auto data = open_npz_dataset(folder / "d.npz");
  ASSERT_EQ(data->size(), 5);
  EXPECT_EQ(field_named(data->fields(), "x").shape, (Shape{2, 3}));
  const std::vector<Tensor> sample = read_sample(*data, 3);
  EXPECT_EQ(std::memcmp(sample[0].raw(), x.data<float>() + 3 * 6, 6 * sizeof(float)), 0);
  EXPECT_EQ(sample[1].data<std::int64_t>()[0], 1);
  expect_error_containing(ErrorKind::invalid_argument, "no field 'z'; their fields are 'x', 'y'",
                          [&] { field_named(data->fields(), "z"); });
}

TEST(ArrayDataset, RefusesArraysThatAreNoSamples) {
  expect_error_containing(ErrorKind::invalid_argument, "array 'y' has 3 samples, but 'x' has 2", [] {
    make_array_dataset({{"x", Tensor(DType::f32, {2, 4})}, {"y", Tensor(DType::i64, {3})}}, "d.npz");
  });
  expect_error_containing(ErrorKind::invalid_argument, "array 'x' is a scalar",
                          [] { make_array_dataset({{"x", Tensor(DType::f32, {})}}, "d.npz"); });
  expect_error_containing(ErrorKind::invalid_argument, "'d.npz' holds no arrays",
                          [] { make_array_dataset({}, "d.npz"); });
}

TEST(Idx, ReadsMnistsFilesPlainAndCompressed) {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "x", idx_pictures());
  gzFile compressed = gzopen((folder / "y.gz").c_str(), "wb");
  const std::vector<std::uint8_t> labels = idx_labels();
  gzwrite(compressed, labels.data(), static_cast<unsigned>(labels.size()));
  gzclose(compressed);
  const auto data = open_idx_dataset(folder / "x", folder / "y.gz");
  ASSERT_EQ(data->size(), 2);
  EXPECT_EQ(data->fields()[0].shape, (Shape{1, 2, 3}));
  const std::vector<Tensor> sample = read_sample(*data, 1);
  EXPECT_EQ(sample[0].data<float>()[0], 1.0f);
  EXPECT_EQ(sample[0].data<float>()[4], 51 / 255.0f);
  EXPECT_EQ(sample[1].data<std::int64_t>()[0], 9);
}

TEST(Idx, ReadsBigEndianNumbers) {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "i", {0, 0, 0x0C, 1, 0, 0, 0, 2, 0, 0, 1, 2, 0xFF, 0xFF, 0xFF, 0xFE});
  const Tensor numbers = read_idx(folder / "i");
  ASSERT_EQ(numbers.dtype(), DType::i32);
  EXPECT_EQ(numbers.data<std::int32_t>()[0], 258);
  EXPECT_EQ(numbers.data<std::int32_t>()[1], -2);
}

TEST(Idx, RefusesWhatIsNoIdxFile) {
  const test::TemporaryFolder folder;
  const auto refuses = [&](std::vector<std::uint8_t> bytes, const std::string& text) {
    test::write_bytes(folder / "f", bytes);
    expect_error_containing(ErrorKind::invalid_argument, text, [&] { read_idx(folder / "f"); });
  };
  refuses({}, "truncated");
  refuses({1, 2, 3, 4}, "no IDX file: it begins with 01 02 03 04");
  refuses({0, 0, 7, 1, 0, 0, 0, 1, 0}, "its element type is 0x07");
  refuses({0, 0, 8, 1, 0, 0, 0, 3, 1, 2}, "truncated or damaged: 1 more bytes");
  refuses({0, 0, 8, 1, 0, 0, 0, 1, 1, 2}, "goes on behind its 1 elements");
  // A header that asks for 2^62 bytes must not be believed.
  refuses({0, 0, 8, 2, 0x7F, 0xFF, 0xFF, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF}, "more bytes than the file can have");
  expect_error_containing(ErrorKind::not_found, "missing", [&] { read_idx(folder / "missing"); });
}

TEST(Cifar, ReadsBothVersions) {
  const test::TemporaryFolder folder;
  std::vector<std::uint8_t> ten(2 * 3073, 0), hundred(3074, 0);
  ten[0] = 3;
  ten[3073] = 8;
  ten[3074] = 255;
  hundred[0] = 5;  // the coarse label
  hundred[1] = 42;
  test::write_bytes(folder / "data_batch_1.bin", ten);
  test::write_bytes(folder / "test_batch.bin", ten);
  test::write_text_file(folder / "batches.meta.txt", "airplane\nautomobile\n\n");
  const auto data = open_cifar_dataset(folder.path(), false);
  ASSERT_EQ(data->size(), 2);
  EXPECT_EQ(data->class_names(), (std::vector<std::string>{"airplane", "automobile"}));
  EXPECT_EQ(read_sample(*data, 1)[0].data<float>()[0], 1.0f);
  EXPECT_EQ(read_sample(*data, 1)[1].data<std::int64_t>()[0], 8);
  test::write_bytes(folder / "train.bin", hundred);
  EXPECT_EQ(read_sample(*open_cifar_dataset(folder.path(), false), 0)[1].data<std::int64_t>()[0], 42);
  test::write_bytes(folder / "train.bin", std::vector<std::uint8_t>(100, 0));
  expect_error_containing(ErrorKind::invalid_argument, "has 100 bytes, expected a multiple of 3074",
                          [&] { open_cifar_dataset(folder.path(), false); });
}

TEST(BytePictures, CountsOfPicturesAndLabelsMustAgree) {
  expect_error_containing(ErrorKind::invalid_argument, "2 pictures, but 3 labels",
                          [] { make_byte_pictures(Tensor(DType::u8, {2, 1, 4, 4}), Tensor(DType::u8, {3}), "d"); });
  expect_error_containing(ErrorKind::invalid_argument, "labels are f32, expected integers",
                          [] { make_byte_pictures(Tensor(DType::u8, {2, 1, 4, 4}), Tensor(DType::f32, {2}), "d"); });
}

}  // namespace
}  // namespace tessera::train::array_dataset_test
