#include "train/data/tables/column_graph.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "io/onnx/reader.h"
#include "io/onnx/writer.h"
#include "ops/core/builder.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "tessera/session.h"
#include "train/data/sample_support.h"
#include "train/data/tables/csv_table.h"

namespace tessera::train::column_graph_test {
namespace {

using test::expect_error_containing;

// y = 1 · x, so that what the encoding gives can be seen.
ir::Graph pass_through(std::int64_t features) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x =
      graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), features}));
  const ir::ValueId y = builder.add("Mul", {x, builder.scalar(1)});
  graph.value(y).name = "y";
  graph.add_output(y);
  return graph;
}

const std::string kTable =
    "height,age,colour,town,plain,label\n"
    "1.71,30,red,Bonn,5,a\n"
    "1.83,41,green,Ulm,6,b\n"
    ",52,red,Jena,7,a\n"
    "1.64,29,,Bonn,5,b\n"
    "9.99,35,blue,Ulm,4.5,a\n";

// The column of the table as the graph's input.
Tensor raw_column(const CsvTable& table, const ColumnEncoding& column) {
  const std::vector<std::string>& cells = table.columns[table.column(column.column)];
  const Shape shape{table.rows(), 1};
  if (column.is_categorical()) return Tensor::from<std::string>(shape, cells);
  std::vector<double> numbers;
  for (const std::string& cell : cells) {
    double number = std::numeric_limits<double>::quiet_NaN();
    parse_number(cell, number);
    numbers.push_back(number);
  }
  return Tensor::from<double>(shape, numbers);
}

TEST(ColumnGraph, GivesTheModelTheBitsOfTheTrainingData) {
  const test::TemporaryFolder folder;
  test::write_text_file(folder / "train.csv", kTable);
  CsvOptions options;
  options.target = "label";
  options.clip_quantile = 0.1;
  options.encodings = {
      {"height", EncodingKind::min_max}, {"town", EncodingKind::ordinal}, {"plain", EncodingKind::as_is}};
  const TableEncoding encoding = fit_table(folder / "train.csv", options);
  // Rows that the training data do not have: unknown categories, an outlier, empty cells.
  test::write_text_file(folder / "test.csv", kTable + "0.1,-70,black,Kiel,100,a\n,,green,,,b\n");
  const auto data = open_csv_dataset(folder / "test.csv", encoding);
  const CsvTable table = read_csv(folder / "test.csv");

  const ir::Graph graph = with_raw_columns(pass_through(encoding.features()), encoding);
  NamedValues inputs;
  for (const ColumnEncoding& column : encoding.columns) inputs[column.column] = raw_column(table, column);
  // As it would be used: written as an ONNX file and read again.
  const Model model(std::make_shared<const ir::Graph>(io::read_model_bytes(io::write_model_bytes(graph))));
  const Tensor got = Session(model).run(inputs).at("y").tensor();
  ASSERT_EQ(got.shape(), (Shape{7, encoding.features()}));
  for (std::int64_t row = 0; row < data->size(); ++row) {
    const Tensor expected = test::read_sample(*data, row)[0];
    for (std::int64_t i = 0; i < encoding.features(); ++i)
      EXPECT_EQ(got.data<float>()[row * encoding.features() + i], expected.data<float>()[i]) << row << ", " << i;
  }
}

TEST(ColumnGraph, RefusesAModelThatTheColumnsDoNotFit) {
  TableEncoding encoding;
  encoding.columns = {{.column = "a"}, {.column = "b"}};
  expect_error_containing(ErrorKind::invalid_argument,
                          "the model's input is f32[batch, 3], expected f32[batch, 2] for these columns",
                          [&] { with_raw_columns(pass_through(3), encoding); });
  encoding.columns[1].column = "y";
  expect_error_containing(ErrorKind::invalid_argument, "the output 'y' of the model has the name of a column",
                          [&] { with_raw_columns(pass_through(2), encoding); });
}

}  // namespace
}  // namespace tessera::train::column_graph_test
