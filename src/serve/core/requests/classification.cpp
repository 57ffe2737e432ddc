#include "serve/core/requests/classification.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "serve/protocol/failure.h"

namespace tessera::serve {
namespace {

template <typename T>
void classify_rows(const Tensor& scores, std::int64_t rows, std::int64_t classes,
                   const std::vector<std::string>* labels, Tensor& result) {
  const std::int64_t each = scores.elements() / std::max<std::int64_t>(rows, 1);
  auto next = result.mutable_values<std::string>().begin();
  std::vector<std::int64_t> order(static_cast<std::size_t>(each));
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* const values = scores.data<T>() + row * each;
    std::iota(order.begin(), order.end(), std::int64_t{0});
    // NaN comes last; equal elements come in the order of their index.
    const auto before = [&](std::int64_t a, std::int64_t b) {
      if (values[a] > values[b]) return true;
      if (values[b] > values[a]) return false;
      const bool a_is_number = values[a] == values[a], b_is_number = values[b] == values[b];
      return a_is_number != b_is_number ? a_is_number : a < b;
    };
    std::ranges::partial_sort(order, order.begin() + classes, before);
    for (std::int64_t i = 0; i < classes; ++i) {
      const std::int64_t index = order[static_cast<std::size_t>(i)];
      const auto at = static_cast<std::size_t>(index);
      const bool named = labels != nullptr && at < labels->size();
      *next++ = named ? fmt::format("{}:{}:{}", values[index], index, (*labels)[at])
                      : fmt::format("{}:{}", values[index], index);
    }
  }
}

}  // namespace

Tensor classify(const Tensor& scores, std::int64_t classes, bool by_row, const std::vector<std::string>* labels) {
  const bool rows_apart = by_row && scores.rank() > 0;
  const std::int64_t rows = rows_apart ? scores.shape()[0] : 1;
  const std::int64_t most = scores.elements() / std::max<std::int64_t>(rows, 1);
  classes = std::min(classes, most);
  Tensor result(DType::string, rows_apart ? Shape{rows, classes} : Shape{classes});
  switch (scores.dtype()) {
    case DType::f32:
      classify_rows<float>(scores, rows, classes, labels, result);
      break;
    case DType::f64:
      classify_rows<double>(scores, rows, classes, labels, result);
      break;
    case DType::i32:
      classify_rows<std::int32_t>(scores, rows, classes, labels, result);
      break;
    case DType::i64:
      classify_rows<std::int64_t>(scores, rows, classes, labels, result);
      break;
    case DType::u8:
      classify_rows<std::uint8_t>(scores, rows, classes, labels, result);
      break;
    default:
      throw Failure(Reason::bad_request, "an output of this type has no classes");
  }
  return result;
}

std::vector<std::string> parse_labels(const std::string& text) {
  std::vector<std::string> labels;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string label = text.substr(begin, end - begin);
    if (!label.empty() && label.back() == '\r') label.pop_back();
    labels.push_back(std::move(label));
    begin = end + 1;
  }
  return labels;
}

}  // namespace tessera::serve
