#include "train/data/csv_dataset.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "train/data/csv_table.h"
#include "train/data/sample_support.h"

namespace tessera::train::csv_dataset_test {
namespace {

using test::expect_error_containing;
using test::read_sample;

TEST(CsvTable, ReadsQuotesLineBreaksAndBothLineEnds) {
  const test::TemporaryFolder folder;
  test::write_text_file(folder / "t.csv",
                        "\xEF\xBB\xBFname,note\r\nann,\"a, b\"\r\nbob,\"two\nlines \"\"q\"\"\"\neve,\n");
  const CsvTable table = read_csv(folder / "t.csv");
  EXPECT_EQ(table.names, (std::vector<std::string>{"name", "note"}));
  EXPECT_EQ(table.columns[1], (std::vector<std::string>{"a, b", "two\nlines \"q\"", ""}));
  EXPECT_EQ(table.column("note"), 1u);
  expect_error_containing(ErrorKind::invalid_argument, "no column 'age'; its columns are 'name', 'note'",
                          [&] { table.column("age"); });
}

TEST(CsvTable, NotesRowsOfAnotherLength) {
  const test::TemporaryFolder folder;
  test::write_text_file(folder / "t.csv", "a;b\n1;2\n3\n4;5;6\n7;8\n");
  const CsvTable table = read_csv(folder / "t.csv", ';');
  EXPECT_EQ(table.rows(), 2);
  EXPECT_EQ(table.row_numbers, (std::vector<std::int64_t>{2, 5}));
  ASSERT_EQ(table.faulty_rows.size(), 2u);
  EXPECT_EQ(table.faulty_rows[0], "row 3 has 1 cells, expected 2");
}

TEST(CsvTable, RefusesWhatIsNoTable) {
  const test::TemporaryFolder folder;
  test::write_text_file(folder / "e.csv", "");
  expect_error_containing(ErrorKind::invalid_argument, "is empty", [&] { read_csv(folder / "e.csv"); });
  test::write_text_file(folder / "q.csv", "a,b\n1,\"never ends\n");
  expect_error_containing(ErrorKind::invalid_argument, "quoted cell", [&] { read_csv(folder / "q.csv"); });
}

TEST(ColumnEncoding, NumbersAreScaledByWhatTheTrainingDataHave) {
  const std::vector<std::string> cells = {"1", "3", "", "5"};
  float value = 0;
  const ColumnEncoding min_max = fit_encoding("c", EncodingKind::min_max, cells);
  min_max.encode("2", &value);
  EXPECT_FLOAT_EQ(value, 0.25f);
  const ColumnEncoding z_score = fit_encoding("c", EncodingKind::z_score, cells);
  z_score.encode("5", &value);
  EXPECT_FLOAT_EQ(value, static_cast<float>(2 / std::sqrt(8.0 / 3)));
  z_score.encode("", &value);
  EXPECT_EQ(value, 0);
}

TEST(ColumnEncoding, OutliersAreClippedToQuantiles) {
  std::vector<std::string> cells;
  for (int i = 0; i <= 100; ++i) cells.push_back(std::to_string(i));
  const ColumnEncoding encoding = fit_encoding("c", EncodingKind::min_max, cells, 0.1);
  float value = 0;
  encoding.encode("100000", &value);
  EXPECT_FLOAT_EQ(value, 1);
  encoding.encode("10", &value);
  EXPECT_FLOAT_EQ(value, 0);
  encoding.encode("50", &value);
  EXPECT_FLOAT_EQ(value, 0.5f);
}

TEST(ColumnEncoding, CategoriesBecomeNumbersOrVectors) {
  const std::vector<std::string> cells = {"red", "blue", "red", ""};
  const ColumnEncoding one_hot = fit_encoding("c", EncodingKind::one_hot, cells);
  ASSERT_EQ(one_hot.width(), 3);
  std::vector<float> row(3);
  one_hot.encode("red", row.data());
  EXPECT_EQ(row, (std::vector<float>{0, 0, 1}));
  one_hot.encode("green", row.data());
  EXPECT_EQ(row, (std::vector<float>{0, 0, 0}));
  const ColumnEncoding ordinal = fit_encoding("c", EncodingKind::ordinal, cells);
  ordinal.encode("blue", row.data());
  EXPECT_EQ(row[0], 1);
  ordinal.encode("green", row.data());
  EXPECT_EQ(row[0], -1);
}

TEST(ColumnEncoding, RefusesWhatItCannotEncode) {
  expect_error_containing(ErrorKind::invalid_argument, "column 'c' holds 'red', which is no number",
                          [] { fit_encoding("c", EncodingKind::z_score, {"1", "red"}); });
  expect_error_containing(ErrorKind::invalid_argument, "has the same value in all rows",
                          [] { fit_encoding("c", EncodingKind::min_max, {"2", "2"}); });
  expect_error_containing(ErrorKind::invalid_argument, "holds 'nan', which is not finite",
                          [] { fit_encoding("c", EncodingKind::as_is, {"nan"}); });
  expect_error_containing(ErrorKind::invalid_argument, "there are as_is, min_max, z_score, one_hot and ordinal",
                          [] { encoding_kind("hot"); });
  EXPECT_EQ(default_encoding({"1", "2", ""}), EncodingKind::z_score);
  EXPECT_EQ(default_encoding({"1", "1"}), EncodingKind::as_is);
  EXPECT_EQ(default_encoding({"1", "x"}), EncodingKind::one_hot);
}

class CsvDatasetTest : public testing::Test {
 protected:
  void SetUp() override {
    test::write_text_file(folder_ / "train.csv", "id,age,town,buys\n1,20,Rome,no\n2,40,Oslo,yes\n3,30,Rome,no\n");
  }
  test::TemporaryFolder folder_;
  CsvOptions options_{.target = "buys", .ignored = {"id"}};
};

TEST_F(CsvDatasetTest, EncodesRowsAndNumbersClasses) {
  const TableEncoding encoding = fit_table(folder_ / "train.csv", options_);
  const auto data = open_csv_dataset(folder_ / "train.csv", encoding);
  ASSERT_EQ(data->size(), 3);
  ASSERT_EQ(data->fields()[0].shape, (Shape{3}));  // age, Oslo, Rome
  EXPECT_EQ(data->class_names(), (std::vector<std::string>{"no", "yes"}));
  const std::vector<Tensor> sample = read_sample(*data, 1);
  EXPECT_GT(sample[0].data<float>()[0], 1);
  EXPECT_EQ(sample[0].data<float>()[1], 1);
  EXPECT_EQ(sample[0].data<float>()[2], 0);
  EXPECT_EQ(sample[1].data<std::int64_t>()[0], 1);
  EXPECT_TRUE(data->describe(1).ends_with("train.csv row 3"));
}

TEST_F(CsvDatasetTest, FaultyRowsAreFaultsOfTheirSamples) {
  test::write_text_file(folder_ / "test.csv", "id,age,town,buys\n1,x,Rome,no\n2,40,Oslo,perhaps\n3,30\n4,30,Rome,no\n");
  const auto data = open_csv_dataset(folder_ / "test.csv", fit_table(folder_ / "train.csv", options_));
  ASSERT_EQ(data->size(), 4);
  expect_error_containing(ErrorKind::invalid_argument, "holds 'x', which is no number", [&] { read_sample(*data, 0); });
  expect_error_containing(ErrorKind::invalid_argument, "class 'perhaps' is not among", [&] { read_sample(*data, 1); });
  EXPECT_NO_THROW(read_sample(*data, 2));
  expect_error_containing(ErrorKind::invalid_argument, "row 4 has 2 cells, expected 4", [&] { read_sample(*data, 3); });
}

TEST_F(CsvDatasetTest, RefusesUnknownColumnsAndEmptyTargets) {
  options_.encodings["height"] = EncodingKind::z_score;
  expect_error_containing(ErrorKind::invalid_argument, "no column 'height'",
                          [&] { fit_table(folder_ / "train.csv", options_); });
  options_.encodings.clear();
  test::write_text_file(folder_ / "empty.csv", "age,buys\n1,\n");
  options_.ignored.clear();
  expect_error_containing(ErrorKind::invalid_argument, "the target, has empty cells",
                          [&] { fit_table(folder_ / "empty.csv", options_); });
}

}  // namespace
}  // namespace tessera::train::csv_dataset_test
