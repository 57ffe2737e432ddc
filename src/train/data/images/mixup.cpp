#include "train/data/images/mixup.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/error.h"

namespace tessera::train {

std::vector<Field> mixed_fields(std::vector<Field> fields) {
  const auto x = std::ranges::find(fields, "x", &Field::name), y = std::ranges::find(fields, "y", &Field::name);
  require(x != fields.end() && x->dtype == DType::f32 && y != fields.end(), ErrorKind::invalid_argument,
          "mixup is for data with fields x of f32 and y");
  Field mixed = *y;
  mixed.name = "y_mixed";
  fields.push_back(std::move(mixed));
  fields.push_back({"mix", DType::f32, {}});
  return fields;
}

double next_gamma(double shape, base::Philox& numbers) {
  if (shape < 1) return next_gamma(shape + 1, numbers) * std::pow(1 - numbers.next_uniform(), 1 / shape);
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = numbers.next_normal(), v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(1 - numbers.next_uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

void mix_batch(std::map<std::string, Tensor>& batch, const std::vector<Field>& fields, double alpha,
               base::Philox& numbers) {
  Tensor &x = batch.at("x"), &mixed = batch.at("y_mixed"), &mix = batch.at("mix");
  const Tensor& y = batch.at("y");
  const std::int64_t samples = x.shape()[0];
  const std::int64_t elements = samples > 0 ? x.elements() / samples : 0;
  const std::int64_t label_bytes = std::ranges::find(fields, "y", &Field::name)->bytes();
  std::vector<std::int64_t> partner(static_cast<std::size_t>(samples));
  std::iota(partner.begin(), partner.end(), std::int64_t{0});
  for (std::int64_t i = samples - 1; i > 0; --i)
    std::swap(partner[static_cast<std::size_t>(i)], partner[static_cast<std::size_t>(numbers.next_integer(0, i))]);
  const Tensor original = x.clone();
  for (std::int64_t i = 0; i < samples; ++i) {
    const double a = next_gamma(alpha, numbers), b = next_gamma(alpha, numbers);
    const double drawn = a + b > 0 ? a / (a + b) : 0.5;
    const auto lambda = static_cast<float>(std::max(drawn, 1 - drawn));
    const std::int64_t j = partner[static_cast<std::size_t>(i)];
    const float *own = original.data<float>() + i * elements, *other = original.data<float>() + j * elements;
    float* to = x.mutable_data<float>() + i * elements;
    for (std::int64_t k = 0; k < elements; ++k) to[k] = lambda * own[k] + (1 - lambda) * other[k];
    std::memcpy(static_cast<std::byte*>(mixed.mutable_raw()) + i * label_bytes,
                static_cast<const std::byte*>(y.raw()) + j * label_bytes, static_cast<std::size_t>(label_bytes));
    mix.mutable_data<float>()[i] = lambda;
  }
}

}  // namespace tessera::train
