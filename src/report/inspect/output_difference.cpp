#include "report/inspect/output_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/host/numeric.h"

namespace tessera::report {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string describe(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::none:
      return "nothing";
    case Value::Kind::tensor:
      return fmt::format("{}{}", name_of(value.tensor().dtype()), to_string(value.tensor().shape()));
    case Value::Kind::sequence:
      return fmt::format("a sequence of {}", value.elements().size());
    case Value::Kind::map:
      return fmt::format("a map of {}", value.elements().size());
  }
  return "";
}

// The index of an element of a tensor with that shape.
Shape index_of(std::int64_t element, const Shape& shape) {
  Shape index(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = element % shape[axis];
    element /= shape[axis];
  }
  return index;
}

class Comparison {
 public:
  Comparison(std::string name, const Closeness& closeness) : closeness_(closeness) { result_.name = std::move(name); }

  OutputDifference run(const Value& a, const Value& b) {
    result_.identical = result_.close = true;
    measure(a);
    compare(a, b);
    result_.relative = result_.largest > 0 && scale_ > 0 ? result_.largest / scale_ : result_.largest;
    if (result_.mismatch.empty() && finite_) set_ratios();
    return result_;
  }

 private:
  static bool is_numeric(const Tensor& tensor) {
    return tensor.dtype() != DType::string && !is_complex(tensor.dtype());
  }

  void set_ratios() {
    result_.has_ratios = true;
    const double norms = std::sqrt(squares_a_) * std::sqrt(squares_b_);
    if (norms > 0) result_.cosine = std::clamp(products_ / norms, -1.0, 1.0);
    else result_.cosine = squares_a_ == squares_b_ ? 1 : 0;  // two zero vectors count as equal
    if (noise_ == 0) result_.snr_db = kInfinity;
    else result_.snr_db = squares_a_ > 0 ? 10 * std::log10(squares_a_ / noise_) : -kInfinity;
  }

  // Finds the largest |a|.
  void measure(const Value& a) {
    if (a.is_tensor() && is_numeric(a.tensor())) {
      for (const double element : backends::host::read<double>(a.tensor())) {
        if (std::isfinite(element)) scale_ = std::max(scale_, std::abs(element));
      }
    } else if (!a.is_tensor() && a.has_value()) {
      for (const Value& element : a.elements()) measure(element);
    }
  }

  void compare(const Value& a, const Value& b) {
    if (describe(a) != describe(b)) {
      result_.identical = result_.close = false;
      result_.mismatch = fmt::format("{} and {}", describe(a), describe(b));
      return;
    }
    if (a.kind() == Value::Kind::map) compare_tensors(a.keys(), b.keys());
    if (a.is_tensor()) compare_tensors(a.tensor(), b.tensor());
    else if (a.has_value()) {
      for (std::size_t i = 0; i < a.elements().size(); ++i) compare(a.elements()[i], b.elements()[i]);
    }
  }

  void compare_tensors(const Tensor& a, const Tensor& b) {
    if (!is_numeric(a)) {
      if (identical(a, b)) return;
      result_.identical = result_.close = false;
      result_.largest = kInfinity;
      return;
    }
    result_.identical = result_.identical && identical(a, b);
    const std::vector<double> x = backends::host::read<double>(a), y = backends::host::read<double>(b);
    const double most = closeness_.absolute + closeness_.relative * scale_;
    result_.elements += a.elements();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const bool same = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]));
      const double difference = same ? 0 : std::abs(x[i] - y[i]),
                   apart = std::isnan(difference) ? kInfinity : difference;
      result_.largest = std::max(result_.largest, apart);
      if (std::isfinite(x[i]) && std::isfinite(y[i])) {
        finite_ = true;
        squares_a_ += x[i] * x[i];
        squares_b_ += y[i] * y[i];
        products_ += x[i] * y[i];
        noise_ += (x[i] - y[i]) * (x[i] - y[i]);
      }
      if (apart <= most) continue;
      result_.close = false;
      if (result_.different_elements++ > 0) continue;
      result_.first = index_of(static_cast<std::int64_t>(i), a.shape());
      result_.first_a = x[i];
      result_.first_b = y[i];
    }
  }

  const Closeness& closeness_;
  OutputDifference result_;
  double scale_ = 0;
  bool finite_ = false;
  double squares_a_ = 0, squares_b_ = 0, products_ = 0, noise_ = 0;
};

}  // namespace

std::vector<OutputDifference> output_differences(const NamedValues& a, const NamedValues& b,
                                                 const Closeness& closeness) {
  std::vector<OutputDifference> differences;
  for (const auto& [name, value] : a) {
    const auto other = b.find(name);
    differences.push_back(Comparison(name, closeness).run(value, other != b.end() ? other->second : Value()));
  }
  return differences;
}

}  // namespace tessera::report
