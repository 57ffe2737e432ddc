#include "ops/classical/feature.h"

#include <cmath>
#include <map>

#include "backends/backend.h"
#include "backends/host/movement.h"
#include "backends/host/numeric.h"
#include "backends/reference/index.h"
#include "ops/core/shape_arguments.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// The row of the table for every element, or -1. If keys are equal, the last one counts.
template <typename Key, typename Less>
std::vector<std::int64_t> look_up(const std::vector<Key>& keys, const std::vector<Key>& wanted, Less less) {
  std::map<Key, std::int64_t, Less> rows(less);
  for (std::size_t i = 0; i < keys.size(); ++i) rows[keys[i]] = static_cast<std::int64_t>(i);
  std::vector<std::int64_t> result;
  for (const Key& key : wanted) {
    const auto found = rows.find(key);
    result.push_back(found == rows.end() ? -1 : found->second);
  }
  return result;
}

std::vector<std::string> strings_of(const Tensor& tensor) {
  return {tensor.data<std::string>(), tensor.data<std::string>() + tensor.elements()};
}

std::vector<std::int64_t> rows_of(const Tensor& keys, const Tensor& wanted) {
  if (keys.dtype() == DType::string) return look_up(strings_of(keys), strings_of(wanted), std::less<>());
  if (is_integer(keys.dtype())) return look_up(read<std::int64_t>(keys), read<std::int64_t>(wanted), std::less<>());
  // NaN equals itself and comes last.
  return look_up(read<double>(keys), read<double>(wanted),
                 [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; });
}

}  // namespace

void label_encoder(KernelContext& context) {
  const ops::LabelTable table = ops::label_table(context);
  const std::vector<std::int64_t> rows = rows_of(table.keys, context.input(0));
  Tensor& output = context.output(0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    copy_element(rows[i] < 0 ? table.fallback : table.values, std::max<std::int64_t>(rows[i], 0), output,
                 static_cast<std::int64_t>(i));
  }
}

// Selects columns of the last axis.
void array_feature_extractor(KernelContext& context) {
  const Tensor& input = context.input(0);
  const std::vector<std::int64_t> columns = ops::integers_of(context.input(1));
  const std::int64_t count = static_cast<std::int64_t>(columns.size()), width = input.shape().back();
  Shape shape = input.shape();
  if (shape.size() == 1) shape.insert(shape.begin(), 1);
  shape.back() = count;
  Tensor& output = context.allocate_output(0, shape);
  for (std::int64_t i = 0; i < output.elements(); ++i)
    copy_element(input, i / count * width + normalise_index(columns[i % count], width), output, i);
}

void binarizer(KernelContext& context) {
  std::vector<double> values = read<double>(context.input(0));
  const double threshold = context.real("threshold");
  for (double& value : values) value = value > threshold ? 1 : 0;
  write(values, context.output(0));
}

}  // namespace tessera::backends::reference
