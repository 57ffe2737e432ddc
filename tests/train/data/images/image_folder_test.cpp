#include "train/data/images/image_folder.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "tessera/images.h"
#include "train/data/data_source.h"
#include "train/data/sample_support.h"

namespace tessera::train::image_folder_test {
namespace {

using test::expect_error_containing;
using test::read_sample;

// A picture of one colour in the PPM format.
void write_ppm(const std::filesystem::path& path, int width, int height, std::vector<std::uint8_t> colour) {
  std::filesystem::create_directories(path.parent_path());
  std::string text = fmt::format("P6 {} {} 255\n", width, height);
  for (int i = 0; i < width * height; ++i) text.append(colour.begin(), colour.end());
  test::write_text_file(path, text);
}

class ImageFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    register_image_codecs();
    write_ppm(folder_ / "rose" / "1.ppm", 6, 4, {255, 0, 0});
    write_ppm(folder_ / "daisy" / "b.ppm", 6, 4, {255, 255, 255});
    write_ppm(folder_ / "daisy" / "a.ppm", 12, 4, {0, 51, 255});
  }
  test::TemporaryFolder folder_;
};

TEST_F(ImageFolderTest, FoldersAreClassesInTheOrderOfTheirNames) {
  const auto data = open_image_folder(folder_.path(), {});
  ASSERT_EQ(data->size(), 3);
  EXPECT_EQ(data->class_names(), (std::vector<std::string>{"daisy", "rose"}));
  // The first picture, daisy/a.ppm, gives the size.
  EXPECT_EQ(data->fields()[0].shape, (Shape{3, 4, 12}));
  const std::vector<Tensor> sample = read_sample(*data, 0);
  EXPECT_EQ(sample[0].data<float>()[48], 51 / 255.0f);
  EXPECT_EQ(read_sample(*data, 2)[1].data<std::int64_t>()[0], 1);
  EXPECT_TRUE(data->describe(2).ends_with("rose/1.ppm"));
}

TEST_F(ImageFolderTest, ResizesToTheSizeAskedFor) {
  const auto data = open_image_folder(folder_.path(), {.height = 8, .width = 8, .channels = 1});
  ASSERT_EQ(data->fields()[0].shape, (Shape{1, 8, 8}));
  const std::vector<Tensor> sample = read_sample(*data, 1);
  for (const float value : sample[0].values<float>()) EXPECT_NEAR(value, 1.0f, 1e-5f);
}

TEST_F(ImageFolderTest, AFileThatIsNoPictureIsAFaultOfItsSample) {
  test::write_text_file(folder_ / "rose" / "2.png", "this is no picture");
  const auto data = open_image_folder(folder_.path(), {.height = 4, .width = 4});
  ASSERT_EQ(data->size(), 4);
  EXPECT_NO_THROW(read_sample(*data, 2));
  EXPECT_THROW(read_sample(*data, 3), Error);
}

TEST_F(ImageFolderTest, PicturesOfUnknownClassesCannotBeReadAndAreCounted) {
  const auto data = open_image_folder(folder_.path(), {.height = 4, .width = 4, .classes = {"rose", "tulip"}});
  ASSERT_EQ(data->size(), 3);
  ASSERT_EQ(data->unreadable().size(), 2u);
  EXPECT_EQ(data->unreadable()[0].first, 1);
  EXPECT_NE(data->unreadable()[0].second.find("daisy/a.ppm: its folder is no class of the training data"),
            std::string::npos);
  EXPECT_EQ(read_sample(*data, 0)[1].data<std::int64_t>()[0], 0);
  EXPECT_THROW(read_sample(*data, 1), Error);
}

TEST_F(ImageFolderTest, TestPicturesHaveTheSizeOfTheTrainingData) {
  const test::TemporaryFolder tested;
  write_ppm(tested / "daisy" / "1.ppm", 9, 9, {1, 2, 3});
  write_ppm(tested / "rose" / "1.ppm", 9, 9, {1, 2, 3});
  TrainingData options;
  options.train = folder_.path().string();
  options.test = tested.path().string();
  const DataSource source = open_data(options);
  EXPECT_EQ(source.test->fields()[0].shape, source.train->fields()[0].shape);
}

TEST_F(ImageFolderTest, RefusesFoldersWithoutClassesOrFiles) {
  const test::TemporaryFolder empty;
  expect_error_containing(ErrorKind::invalid_argument, "holds no folders; expected one for each class",
                          [&] { open_image_folder(empty.path(), {}); });
  std::filesystem::create_directory(empty / "cats");
  expect_error_containing(ErrorKind::invalid_argument, "hold no files", [&] { open_image_folder(empty.path(), {}); });
  expect_error_containing(ErrorKind::not_found, "nowhere", [&] { open_image_folder(empty / "nowhere", {}); });
  expect_error_containing(ErrorKind::invalid_argument, "1 or 3 channels, not 4",
                          [&] { open_image_folder(folder_.path(), {.channels = 4}); });
}

TEST(ResizeToCover, AveragesWhereItShrinksAndCutsTheCentreOut) {
  // Columns alternate between 0 and 255: half the size is grey everywhere.
  Tensor stripes(DType::u8, {8, 8, 1});
  for (std::int64_t i = 0; i < 64; ++i) stripes.mutable_data<std::uint8_t>()[i] = i % 2 ? 255 : 0;
  std::vector<float> half(16);
  resize_to_cover(stripes, 4, 4, half.data());
  // Inside, where the filter lies within the picture.
  for (const std::size_t i : {5u, 6u, 9u, 10u}) EXPECT_NEAR(half[i], 0.5f, 0.01f);
  // A wide picture whose centre is white.
  Tensor wide(DType::u8, {4, 12, 1});
  for (std::int64_t i = 0; i < 48; ++i) wide.mutable_data<std::uint8_t>()[i] = i % 12 >= 4 && i % 12 < 8 ? 255 : 0;
  std::vector<float> centre(16);
  resize_to_cover(wide, 4, 4, centre.data());
  for (const float value : centre) EXPECT_NEAR(value, 1.0f, 1e-5f);
}

}  // namespace
}  // namespace tessera::train::image_folder_test
