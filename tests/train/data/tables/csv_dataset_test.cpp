#include "train/data/tables/csv_dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "train/data/data_source.h"
#include "train/data/sample_support.h"
#include "train/data/tables/csv_table.h"

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
  EXPECT_EQ(table.lines, (std::vector<std::int64_t>{2, 5}));
  ASSERT_EQ(table.faulty_rows.size(), 2u);
  EXPECT_EQ(table.faulty_rows[0].line, 3);
  EXPECT_EQ(table.faulty_rows[0].fault, "1 cells, expected 2");
}

TEST(CsvTable, CountsLinesAndNotRows) {
  const test::TemporaryFolder folder;
  test::write_text_file(folder / "t.csv", "a,b\n\n1,\"two\nlines\"\n\n\"x\ny\",2\n3\n4,5");
  const CsvTable table = read_csv(folder / "t.csv");
  EXPECT_EQ(table.lines, (std::vector<std::int64_t>{3, 6, 9}));
  ASSERT_EQ(table.faulty_rows.size(), 1u);
  EXPECT_EQ(table.faulty_rows[0].line, 8);
}

TEST(CsvTable, FindsOutTheSeparator) {
  const test::TemporaryFolder folder;
  const auto names_of = [&](const std::string& text, const char* file = "t.csv") {
    test::write_text_file(folder / file, text);
    return read_csv(folder / file).names;
  };
  const std::vector<std::string> expected = {"a", "b, c"};
  EXPECT_EQ(names_of("a;b, c\n1,5;2,5\n3,5;4,5\n"), expected);
  EXPECT_EQ(names_of("a\tb, c\n1,5\t2\n"), expected);
  EXPECT_EQ(names_of("a|b, c\r\n1|2\r\n"), expected);
  EXPECT_EQ(names_of("sep=;\r\na;\"b, c\"\r\n1;2\r\n"), expected);
  EXPECT_EQ(names_of("a,\"b, c\"\n1;2;3,4\n"), expected);
  EXPECT_EQ(names_of("a\n1\n"), (std::vector<std::string>{"a"}));
  EXPECT_EQ(names_of("a b\t\"b, c\"\n", "t.tsv"), (std::vector<std::string>{"a b", "b, c"}));
}

TEST(CsvTable, ReadsDecimalCommas) {
  const test::TemporaryFolder folder;
  test::write_text_file(folder / "t.csv", "a;b;c;d\n1,5;1.234,5;1.5;x, y\n-2;1.000;2.25;1,5 kg\nNA;3,25e2;3;z\n");
  const CsvTable table = read_csv(folder / "t.csv");
  EXPECT_EQ(table.columns[0], (std::vector<std::string>{"1.5", "-2", "NA"}));
  EXPECT_EQ(table.columns[1], (std::vector<std::string>{"1234.5", "1000", "3.25e2"}));
  EXPECT_EQ(table.columns[2], (std::vector<std::string>{"1.5", "2.25", "3"}));
  EXPECT_EQ(table.columns[3], (std::vector<std::string>{"x, y", "1,5 kg", "z"}));
}

TEST(CsvTable, ASeparatorAtTheEndOfEachLineMakesNoCell) {
  const test::TemporaryFolder folder;
  test::write_text_file(folder / "t.csv", "a,b\n1,2,\n3,4,\n");
  const CsvTable table = read_csv(folder / "t.csv");
  EXPECT_EQ(table.rows(), 2);
  EXPECT_TRUE(table.faulty_rows.empty());
}

TEST(CsvTable, KnowsTheUsualSpellingsOfMissingValues) {
  for (const char* cell :
       {"", " ", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "?", "-", "#N/A", "<NA>", " NA "})
    EXPECT_TRUE(is_missing(cell)) << cell;
  for (const char* cell : {"0", "-1", "1.5", "no", "Nancy", "unknown", "-x", "n", "1.#", "North"})
    EXPECT_FALSE(is_missing(cell)) << cell;
  EXPECT_TRUE(is_missing_class("NA"));
  EXPECT_FALSE(is_missing_class("None"));
  EXPECT_FALSE(is_missing_class("-"));
}

TEST(CsvTable, RefusesWhatIsNoTable) {
  const test::TemporaryFolder folder;
  test::write_text_file(folder / "e.csv", "");
  expect_error_containing(ErrorKind::invalid_argument, "is empty", [&] { read_csv(folder / "e.csv"); });
  test::write_text_file(folder / "q.csv", "a,b\n1,\"never ends\n");
  const auto refuses = [&](const char* text, const std::string& content) {
    test::write_text_file(folder / "q.csv", content);
    expect_error_containing(ErrorKind::invalid_argument, text, [&] { read_csv(folder / "q.csv"); });
  };
  refuses("ends inside of a quoted cell of the row that begins in line 2", "a,b\n1,\"never ends\n\n");
  refuses("q.csv' line 3, character ", "a,b\n1,2\n5\" pipe,2\n");
  refuses("a quote inside of a cell", "a,b\n1,2\n5\" pipe,2\n");
  refuses("the columns 1 and 3 are both named 'a'", "a,b,a\n1,2,3\n");
  refuses("is in UTF-16, expected UTF-8", std::string("\xFF\xFE\x61\x00", 4));
  refuses("holds zero bytes", std::string("a,b\n1,\0\n", 8));
  refuses("line 2: not in UTF-8; convert the file", "a,b\nM\xFCller,2\n");
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
  expect_error_containing(ErrorKind::invalid_argument, "holds 'inf', which is not finite",
                          [] { fit_encoding("c", EncodingKind::as_is, {"inf"}); });
  expect_error_containing(ErrorKind::invalid_argument, "column 'c' has no value in any row",
                          [] { fit_encoding("c", EncodingKind::as_is, {"nan", ""}); });
  expect_error_containing(ErrorKind::invalid_argument, "there are as_is, min_max, z_score, one_hot and ordinal",
                          [] { encoding_kind("hot"); });
  EXPECT_EQ(default_encoding({"1", "2", ""}).kind, EncodingKind::z_score);
  EXPECT_EQ(default_encoding({"1", "2", "NA", "?", "null"}).kind, EncodingKind::z_score);
  EXPECT_EQ(default_encoding({"1", "1"}).kind, EncodingKind::as_is);
  EXPECT_EQ(default_encoding({"1", "x"}).kind, EncodingKind::one_hot);
  EXPECT_EQ(default_encoding({"1", "2", "mistake"}, {"mistake"}).kind, EncodingKind::z_score);
}

TEST(ColumnEncoding, AMissingValueOfANumberCountsAsTheMean) {
  const ColumnEncoding encoding = fit_encoding("c", EncodingKind::z_score, {"1", "NA", "3", "gone", "5"}, 0, {"gone"});
  EXPECT_EQ(encoding.missing_cells, 2);
  EXPECT_EQ(encoding.describe(), "z_score of numbers with mean 3 and deviation 1.63299; 2 missing values count as 3");
  for (const char* cell : {"", "NA", "null", "?", "gone", "3"}) {
    float value = 1;
    encoding.encode(cell, &value);
    EXPECT_EQ(value, 0) << cell;
  }
}

TEST(ColumnEncoding, ACategoryOfMissingValuesTakesAllSpellings) {
  const ColumnEncoding encoding = fit_encoding("c", EncodingKind::ordinal, {"red", "NA", "blue", "NA", ""});
  EXPECT_EQ(encoding.categories, (std::vector<std::string>{"", "NA", "blue", "red"}));
  const auto number = [&](const char* cell) {
    float value = 0;
    encoding.encode(cell, &value);
    return value;
  };
  EXPECT_EQ(number(""), 0);
  EXPECT_EQ(number("NA"), 1);
  EXPECT_EQ(number("nan"), 1);  // the more frequent spelling
  EXPECT_EQ(number("green"), -1);
}

TEST(ColumnEncoding, OneWordAmongManyNumbersIsAMissingValue) {
  std::vector<std::string> cells;
  for (int i = 0; i < 30; ++i) cells.push_back(std::to_string(i));
  cells[7] = "unknown";
  const DefaultEncoding found = default_encoding(cells);
  EXPECT_EQ(found.kind, EncodingKind::z_score);
  EXPECT_EQ(found.words, (std::vector<std::int64_t>{7}));
  // Few different numbers are categories by nature.
  for (int i = 0; i < 30; ++i) cells[static_cast<std::size_t>(i)] = std::to_string(i % 3);
  cells[7] = "3+";
  EXPECT_EQ(default_encoding(cells).kind, EncodingKind::one_hot);
  EXPECT_TRUE(default_encoding(cells).words.empty());
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
  EXPECT_TRUE(data->describe(1).ends_with("train.csv line 3"));
}

TEST_F(CsvDatasetTest, FaultyRowsAreFaultsOfTheirSamples) {
  test::write_text_file(folder_ / "test.csv", "id,age,town,buys\n1,x,Rome,no\n2,40,Oslo,perhaps\n3,30\n4,30,Rome,no\n");
  const auto data = open_csv_dataset(folder_ / "test.csv", fit_table(folder_ / "train.csv", options_));
  ASSERT_EQ(data->size(), 4);
  expect_error_containing(ErrorKind::invalid_argument, "holds 'x', which is no number", [&] { read_sample(*data, 0); });
  expect_error_containing(ErrorKind::invalid_argument, "holds 'perhaps', which is not among the classes",
                          [&] { read_sample(*data, 1); });
  EXPECT_NO_THROW(read_sample(*data, 2));
  expect_error_containing(ErrorKind::invalid_argument, "2 cells, expected 4", [&] { read_sample(*data, 3); });
  const auto unreadable = data->unreadable();
  ASSERT_EQ(unreadable.size(), 3u);
  EXPECT_EQ(unreadable[0].first, 0);
  EXPECT_TRUE(
      unreadable[0].second.ends_with("test.csv line 2: column 'age' holds 'x', which is no number; encode it by "
                                     "one_hot or ordinal"))
      << unreadable[0].second;
  EXPECT_TRUE(unreadable[2].second.ends_with("test.csv line 4: 2 cells, expected 4")) << unreadable[2].second;
}

TEST_F(CsvDatasetTest, ClassesThatAreNumbersAreFoundByTheirValue) {
  test::write_text_file(folder_ / "n.csv", "id,age,town,buys\n1,20,Rome,0\n2,40,Oslo,1\n3,50,Oslo,1.0\n");
  const TableEncoding encoding = fit_table(folder_ / "n.csv", options_);
  EXPECT_EQ(encoding.classes.size(), 2u);
  test::write_text_file(folder_ / "m.csv", "id;age;town;buys\n1;20,5;Rome;0.0\n2;40,5;Oslo;1\n3;NA;Oslo;NA\n");
  const auto data = open_csv_dataset(folder_ / "m.csv", encoding);
  EXPECT_EQ(read_sample(*data, 0)[1].data<std::int64_t>()[0], 0);
  EXPECT_EQ(read_sample(*data, 1)[1].data<std::int64_t>()[0], 1);
  ASSERT_EQ(data->unreadable().size(), 1u);
  EXPECT_NE(data->unreadable()[0].second.find("line 4: column 'buys', the target, has no value"), std::string::npos);
}

TEST_F(CsvDatasetTest, NamesFileLineAndColumnOfACellThatIsNoNumber) {
  test::write_text_file(folder_ / "w.csv", "id,age,town,buys\n1,20,Rome,no\n\n2,old,Oslo,yes\n");
  options_.encodings["age"] = EncodingKind::z_score;
  expect_error_containing(ErrorKind::invalid_argument, "column 'age' holds 'old', which is no number",
                          [&] { fit_table(folder_ / "w.csv", options_); });
  expect_error_containing(ErrorKind::invalid_argument, "w.csv' line 4",
                          [&] { fit_table(folder_ / "w.csv", options_); });
}

TEST_F(CsvDatasetTest, ColumnsWithoutANameAreLeftOutOrRefused) {
  test::write_text_file(folder_ / "i.csv", ",age,buys\n0,20,no\n1,40,yes\n2,30,no\n");
  options_.ignored.clear();
  EXPECT_EQ(fit_table(folder_ / "i.csv", options_).columns.size(), 1u);
  test::write_text_file(folder_ / "i.csv", ",age,buys\n7,20,no\n1,40,yes\n2,30,no\n");
  expect_error_containing(ErrorKind::invalid_argument, "column 1 has no name",
                          [&] { fit_table(folder_ / "i.csv", options_); });
}

TEST_F(CsvDatasetTest, RowsThatAreHeldOutTeachNoEncoding) {
  // Each row has a town of its own, and every tenth a class of its own.
  std::string text = "n,town,buys\n";
  for (int i = 0; i < 60; ++i) text += fmt::format("{},t{},{}\n", i, i, i % 10 == 0 ? fmt::format("c{}", i) : "no");
  test::write_text_file(folder_ / "h.csv", text);
  TrainingData options;
  options.train = (folder_ / "h.csv").string();
  options.target_column = "buys";
  options.encodings = {{"n", "min_max"}, {"town", "one_hot"}};
  options.hold_out = 0.5;
  options.validation_share = 0.25;
  const DataSource source = open_data(options);
  ASSERT_EQ(source.train->size(), 15);
  ASSERT_EQ(source.validation->size(), 15);
  ASSERT_EQ(source.test->size(), 30);
  const std::vector<ColumnEncoding>& columns = source.table->columns;
  EXPECT_EQ(columns[1].categories.size(), 15u);
  EXPECT_EQ(source.table->classes.size(), 7u);
  float least = 1, greatest = 0;
  for (std::int64_t i = 0; i < source.train->size(); ++i) {
    const Tensor x = read_sample(*source.train, i)[0];
    least = std::min(least, x.data<float>()[0]);
    greatest = std::max(greatest, x.data<float>()[0]);
    float towns = 0;
    for (std::int64_t at = 1; at < x.elements(); ++at) towns += x.data<float>()[at];
    EXPECT_EQ(towns, 1) << source.train->describe(i);
  }
  EXPECT_EQ(least, 0);
  EXPECT_FLOAT_EQ(greatest, 1);
  EXPECT_TRUE(source.test->unreadable().empty());
  for (const auto& held : {source.validation, source.test}) {
    for (std::int64_t i = 0; i < held->size(); ++i) {
      const Tensor x = read_sample(*held, i)[0];
      for (std::int64_t at = 1; at < x.elements(); ++at) EXPECT_EQ(x.data<float>()[at], 0) << held->describe(i);
    }
  }
}

TEST_F(CsvDatasetTest, RowsWithoutATargetTeachNoEncoding) {
  test::write_text_file(folder_ / "m.csv", "age,town,price\n20,Rome,1\n900,Bonn,\n40,Oslo,2\n-7,Kiel,dear\n");
  const CsvOptions options{.target = "price", .target_is_number = true, .encodings = {{"age", EncodingKind::min_max}}};
  const TableEncoding encoding = fit_table(folder_ / "m.csv", options);
  EXPECT_EQ(encoding.columns[0].describe(), "min_max of numbers from 20 to 40");
  EXPECT_EQ(encoding.columns[1].categories, (std::vector<std::string>{"Oslo", "Rome"}));
  EXPECT_EQ(open_csv_dataset(folder_ / "m.csv", encoding)->unreadable().size(), 2u);
  // A target that is a class: "dear" is one.
  const TableEncoding classes = fit_table(folder_ / "m.csv", {.target = "price"});
  EXPECT_EQ(classes.columns[1].categories, (std::vector<std::string>{"Kiel", "Oslo", "Rome"}));
}

TEST_F(CsvDatasetTest, RefusesUnknownColumnsAndEmptyTargets) {
  options_.encodings["height"] = EncodingKind::z_score;
  expect_error_containing(ErrorKind::invalid_argument, "no column 'height'",
                          [&] { fit_table(folder_ / "train.csv", options_); });
  options_.encodings.clear();
  test::write_text_file(folder_ / "empty.csv", "age,buys\n1,\n");
  options_.ignored.clear();
  expect_error_containing(ErrorKind::invalid_argument, "the target, has no value in any row",
                          [&] { fit_table(folder_ / "empty.csv", options_); });
}

}  // namespace
}  // namespace tessera::train::csv_dataset_test
