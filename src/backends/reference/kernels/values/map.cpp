#include "ops/values/map.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "backends/backend.h"
#include "backends/host/movement.h"
#include "backends/host/numeric.h"
#include "backends/reference/number_text.h"
#include "base/error.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// The single element of value i of a map, which must be of the given type.
const Tensor& number_of(const Value& map, std::size_t i, DType type) {
  const Tensor& value = map.elements()[i].tensor();
  require(value.dtype() == type && value.elements() == 1, ErrorKind::failed,
          "value {} of the map is {}{}, expected one element of {}", i, name_of(value.dtype()),
          to_string(value.shape()), name_of(type));
  return value;
}

template <typename Key>
std::unordered_map<Key, std::int64_t> positions(const Tensor& keys) {
  std::unordered_map<Key, std::int64_t> result;
  for (const Key& key : keys.values<Key>()) result.emplace(key, static_cast<std::int64_t>(result.size()));
  return result;
}

template <typename Key>
void vectorise(const Value& map, const Tensor& vocabulary, Tensor& output) {
  const std::unordered_map<Key, std::int64_t> columns = positions<Key>(vocabulary);
  const std::span<const Key> keys = map.keys().values<Key>();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Tensor& value = number_of(map, i, output.dtype());
    if (const auto column = columns.find(keys[i]); column != columns.end())
      copy_run(value, 0, output, column->second, 1);
  }
}

// Converts one element to another type, as Cast does.
void cast_element(const Tensor& from, Tensor& to, std::int64_t position) {
  if (from.dtype() == to.dtype()) {
    copy_run(from, 0, to, position, 1);
  } else if (to.dtype() == DType::string) {
    to.mutable_data<std::string>()[position] = float_to_text(*from.data<float>(), DType::f32);
  } else if (to.dtype() == DType::f32) {
    to.mutable_data<float>()[position] = static_cast<float>(text_to_float(*from.data<std::string>()));
  } else if (from.dtype() == DType::string) {
    to.mutable_data<std::int64_t>()[position] = text_to_integer<std::int64_t>(*from.data<std::string>());
  } else {
    Tensor integer(DType::i64, {1});
    write(read<double>(from), integer);
    copy_run(integer, 0, to, position, 1);
  }
}

void fill_with_zero(Tensor& output) {
  fill_zero(output);
  if (output.dtype() == DType::string) std::fill_n(output.mutable_data<std::string>(), output.elements(), "0");
}

}  // namespace

void zip_map(KernelContext& context) {
  const Tensor keys = ops::key_list(context);
  const Tensor scores = context.input(0).clone();  // the maps' values are views of this copy
  const std::int64_t rows = scores.rank() == 1 ? 1 : scores.shape()[0], columns = keys.elements();
  auto* score = const_cast<float*>(scores.data<float>());
  std::vector<Value> maps;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<Value> values;
    for (std::int64_t column = 0; column < columns; ++column)
      values.emplace_back(Tensor(DType::f32, {}, score++, scores.owner()));
    maps.push_back(Value::map(keys, std::move(values)));
  }
  context.set_output(0, Value::sequence(std::move(maps)));
}

void dict_vectorizer(KernelContext& context) {
  const Tensor vocabulary = ops::key_list(context);
  Tensor& output = context.output(0);
  fill_zero(output);
  if (vocabulary.dtype() == DType::string) vectorise<std::string>(context.input_value(0), vocabulary, output);
  else vectorise<std::int64_t>(context.input_value(0), vocabulary, output);
}

void cast_map(KernelContext& context) {
  const Value& map = context.input_value(0);
  const std::span<const std::int64_t> keys = map.keys().values<std::int64_t>();
  const DType type = map.elements().empty() ? DType::f32 : map.elements()[0].tensor().dtype();
  if (context.text("map_form") == "SPARSE") {
    Tensor& output = context.output(0);
    fill_with_zero(output);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      require(keys[i] >= 0 && keys[i] < output.elements(), ErrorKind::failed,
              "key {} is outside [0, {}), the places that max_map gives", keys[i], output.elements());
      cast_element(number_of(map, i, type), output, keys[i]);
    }
    return;
  }
  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return keys[a] < keys[b]; });
  Tensor& output = context.allocate_output(0, {1, static_cast<std::int64_t>(keys.size())});
  for (std::size_t i = 0; i < order.size(); ++i)
    cast_element(number_of(map, order[i], type), output, static_cast<std::int64_t>(i));
}

}  // namespace tessera::backends::reference
