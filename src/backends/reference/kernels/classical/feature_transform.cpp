#include <cmath>
#include <map>

#include "backends/backend.h"
#include "backends/host/numeric.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// The length of the last axis; 1 for a scalar.
std::size_t columns_of(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.shape().empty() ? 1 : tensor.shape().back());
}

std::vector<float> reals_or(const KernelContext& context, std::string_view name, float fallback) {
  return context.has_attribute(name) ? context.reals(name) : std::vector<float>{fallback};
}

// Replaces values in the wide type T: double for floats, int64 for integers.
template <typename T, typename V>
void impute(KernelContext& context, const std::vector<V>& values, T replaced) {
  std::vector<T> x = read<T>(context.input(0));
  const std::size_t columns = columns_of(context.input(0));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool both_missing = x[i] != x[i] && replaced != replaced;
    if (x[i] == replaced || both_missing) x[i] = static_cast<T>(values[values.size() == 1 ? 0 : i % columns]);
  }
  write(x, context.output(0));
}

// The position of every category; the last one for a repeated category.
template <typename T>
std::map<T, std::size_t> index_of(const std::vector<T>& categories) {
  std::map<T, std::size_t> index;
  for (std::size_t i = 0; i < categories.size(); ++i) index[categories[i]] = i;
  return index;
}

template <typename T>
void encode(KernelContext& context, std::span<const T> x, const std::vector<T>& categories) {
  const std::map<T, std::size_t> index = index_of(categories);
  std::vector<double> y = transient_vector<double>(
      base::checked_multiply(static_cast<std::int64_t>(x.size()), static_cast<std::int64_t>(categories.size())));
  for (std::size_t i = 0; i < x.size(); ++i) {
    // NaN cannot be ordered, and so is not looked up.
    const auto found = x[i] == x[i] ? index.find(x[i]) : index.end();
    if (found != index.end()) y[i * categories.size() + found->second] = 1;
    else require(context.integer("zeros") != 0, ErrorKind::failed, "unknown category '{}'", x[i]);
  }
  write(y, context.output(0));
}

}  // namespace

void scaler(KernelContext& context) {
  std::vector<double> x = read<double>(context.input(0));
  const std::vector<float> offset = reals_or(context, "offset", 0), scale = reals_or(context, "scale", 1);
  const std::size_t columns = columns_of(context.input(0));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t column = i % columns;
    x[i] = (x[i] - offset[offset.size() == 1 ? 0 : column]) * scale[scale.size() == 1 ? 0 : column];
  }
  write(x, context.output(0));
}

void normalizer(KernelContext& context) {
  std::vector<double> x = read<double>(context.input(0));
  const std::string& norm = context.text("norm");
  const std::size_t columns = columns_of(context.input(0));
  for (std::size_t begin = 0; begin < x.size(); begin += columns) {
    double divisor = 0;
    for (std::size_t i = begin; i < begin + columns; ++i) {
      if (norm == "MAX") divisor = std::max(divisor, std::abs(x[i]));
      else divisor += norm == "L1" ? std::abs(x[i]) : x[i] * x[i];
    }
    if (norm == "L2") divisor = std::sqrt(divisor);
    for (std::size_t i = begin; divisor != 0 && i < begin + columns; ++i) x[i] /= divisor;
  }
  write(x, context.output(0));
}

void imputer(KernelContext& context) {
  if (is_float(context.input(0).dtype())) {
    impute<double>(context, context.reals("imputed_value_floats"), context.real("replaced_value_float"));
  } else {
    impute<std::int64_t>(context, context.integers("imputed_value_int64s"), context.integer("replaced_value_int64"));
  }
}

void one_hot_encoder(KernelContext& context) {
  const Tensor& input = context.input(0);
  if (input.dtype() == DType::string)
    return encode(context, input.values<std::string>(), context.texts("cats_strings"));
  const auto& categories = context.integers("cats_int64s");
  if (!is_float(input.dtype())) {
    const std::vector<std::int64_t> x = read<std::int64_t>(input);
    return encode(context, std::span<const std::int64_t>(x), categories);
  }
  // Floats are truncated to integers; a value without integer is not a category.
  std::vector<double> x = read<double>(input);
  for (double& value : x) value = std::trunc(value);
  encode(context, std::span<const double>(x), std::vector<double>(categories.begin(), categories.end()));
}

void feature_vectorizer(KernelContext& context) {
  const Shape& shape = context.output(0).shape();
  std::vector<double> y = transient_vector<double>(element_count(shape));
  const auto width = static_cast<std::size_t>(shape[1]);
  std::size_t first = 0;
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    const std::vector<double> x = read<double>(context.input(i));
    const std::size_t columns = columns_of(context.input(i));
    for (std::size_t e = 0; e < x.size(); ++e) y[e / columns * width + first + e % columns] = x[e];
    first += columns;
  }
  write(y, context.output(0));
}

void category_mapper(KernelContext& context) {
  const Tensor& input = context.input(0);
  Tensor& output = context.output(0);
  const auto& numbers = context.integers("cats_int64s");
  const auto& texts = context.texts("cats_strings");
  const auto count = static_cast<std::size_t>(input.elements());
  if (input.dtype() == DType::string) {
    const auto index = index_of(texts);
    for (std::size_t i = 0; i < count; ++i) {
      const auto found = index.find(input.data<std::string>()[i]);
      output.mutable_data<std::int64_t>()[i] =
          found == index.end() ? context.integer("default_int64") : numbers[found->second];
    }
    return;
  }
  const auto index = index_of(numbers);
  for (std::size_t i = 0; i < count; ++i) {
    const auto found = index.find(input.data<std::int64_t>()[i]);
    output.mutable_data<std::string>()[i] =
        found == index.end() ? context.text("default_string") : texts[found->second];
  }
}

}  // namespace tessera::backends::reference
