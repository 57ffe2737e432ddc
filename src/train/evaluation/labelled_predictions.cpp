#include "train/evaluation/labelled_predictions.h"

#include "base/numbers/half.h"

namespace tessera::train {
namespace {

template <typename T>
std::vector<double> elements_of(const Tensor& tensor) {
  const auto values = tensor.values<T>();
  return {values.begin(), values.end()};
}

}  // namespace

std::vector<double> numbers_of(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::f32:
      return elements_of<float>(tensor);
    case DType::f64:
      return elements_of<double>(tensor);
    case DType::i64:
      return elements_of<std::int64_t>(tensor);
    case DType::i32:
      return elements_of<std::int32_t>(tensor);
    case DType::u8:
      return elements_of<std::uint8_t>(tensor);
    case DType::boolean:
      return elements_of<bool>(tensor);
    case DType::f16:
    case DType::bf16: {
      std::vector<double> values;
      values.reserve(static_cast<std::size_t>(tensor.elements()));
      if (tensor.dtype() == DType::f16)
        for (const f16_t value : tensor.values<f16_t>()) values.push_back(base::to_float(value));
      else
        for (const bf16_t value : tensor.values<bf16_t>()) values.push_back(base::to_float(value));
      return values;
    }
    default:
      fail(ErrorKind::invalid_argument, "a metric of {} is not known", name_of(tensor.dtype()));
  }
}

bool is_scores(const Tensor& prediction, const Tensor& target) {
  return prediction.elements() == target.elements() &&
         (prediction.shape() == target.shape() || (prediction.rank() == 2 && prediction.shape()[1] == 1));
}

Labelled::Labelled(const Tensor& prediction, const Tensor& target, std::int64_t ignore_index)
    : logits_(numbers_of(prediction)), labels_(numbers_of(target)), ignore_index_(ignore_index) {
  const Shape& shape = prediction.shape();
  const auto fits = [&](std::size_t axis) {
    Shape rest = shape;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(axis));
    return rest == target.shape();
  };
  const std::size_t last = shape.size() - 1;
  require(shape.size() >= 2 && (fits(1) || fits(last)), ErrorKind::invalid_argument,
          "labels {} do not fit a prediction {}; expected its shape without the classes, which are along axis 1 or "
          "the last axis",
          to_string(target.shape()), to_string(shape));
  const std::size_t axis = fits(1) ? 1 : last;
  classes_ = shape[axis];
  for (std::size_t i = axis + 1; i < shape.size(); ++i) inner_ *= shape[i];
}

}  // namespace tessera::train
