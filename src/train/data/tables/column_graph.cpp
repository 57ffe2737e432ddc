#include "train/data/tables/column_graph.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "ir/inline.h"
#include "ops/core/gradient.h"
#include "train/data/tables/csv_table.h"

namespace tessera::train {
namespace {

using ops::Term;

// Computes ColumnEncoding::encode, with the same operations in float64.
Term encoded_number(const ColumnEncoding& column, Term cells) {
  Term number = cells.apply("IsNaN").choose(cells.number(column.missing), cells);
  if (column.clips) number = number.combine("Clip", {cells.number(column.low), cells.number(column.high)});
  return ((number - column.offset) * column.scale).cast(DType::f32);
}

Term encoded_category(const ColumnEncoding& column, Term cells) {
  std::vector<std::string> keys = column.categories;
  std::vector<std::int64_t> places(keys.size()), values;
  std::iota(places.begin(), places.end(), std::int64_t{0});
  values = places;
  if (column.missing_category) {
    const auto of_missing = std::ranges::lower_bound(column.categories, *column.missing_category);
    for (const auto* words : {&missing_spellings(), &column.missing_words}) {
      for (const std::string& word : *words) {
        if (std::ranges::find(keys, word) != keys.end()) continue;
        keys.push_back(word);
        values.push_back(of_missing - column.categories.begin());
      }
    }
  }
  const Term place =
      cells.apply("ai.onnx.ml::LabelEncoder",
                  {{"keys_strings", keys}, {"values_int64s", values}, {"default_int64", std::int64_t{-1}}});
  if (column.kind == EncodingKind::ordinal) return place.cast(DType::f32);
  return place.equals(place.integers(places)).cast(DType::f32);  // [batch, 1] against [categories]
}

}  // namespace

ir::Graph with_raw_columns(const ir::Graph& model, const TableEncoding& encoding) {
  require(
      model.inputs().size() == 1 && model.variables().empty(), ErrorKind::invalid_argument,
      "a model of {} inputs and {} variables cannot take the columns of a table, expected one input and no variable",
      model.inputs().size(), model.variables().size());
  const ir::ValueType& type = model.value(model.inputs()[0]).type;
  require(
      type.dtype == DType::f32 && type.dims && type.dims->size() == 2 && (*type.dims)[1].may_equal(encoding.features()),
      ErrorKind::invalid_argument, "the model's input is {}, expected f32[batch, {}] for these columns",
      to_string(type), encoding.features());
  ir::Graph graph;
  graph.name = model.name;
  graph.metadata = model.metadata;
  ops::GraphBuilder builder(graph);
  std::vector<Term> cells;
  for (const ColumnEncoding& column : encoding.columns) {
    const DType dtype = column.is_categorical() ? DType::string : DType::f64;
    cells.emplace_back(builder,
                       graph.add_input(column.column, ir::ValueType::tensor(dtype, ir::Dims{(*type.dims)[0], 1})));
  }
  std::vector<ir::ValueId> parts;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const ColumnEncoding& column = encoding.columns[i];
    parts.push_back(
        (column.is_categorical() ? encoded_category(column, cells[i]) : encoded_number(column, cells[i])).id());
  }
  const ir::ValueId arguments[] = {builder.add("Concat", parts, {{"axis", std::int64_t{1}}})};
  const std::vector<ir::ValueId> outputs = ir::append_inlined(graph, model, arguments);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = model.value(model.outputs()[i]).name;
    require(!graph.find_value(name).valid() || graph.find_value(name) == outputs[i], ErrorKind::invalid_argument,
            "the output '{}' of the model has the name of a column", name);
    graph.value(outputs[i]).name = name;
    graph.add_output(outputs[i]);
  }
  return graph;
}

}  // namespace tessera::train
