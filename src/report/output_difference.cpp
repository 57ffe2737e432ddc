#include "report/output_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/reference/numeric.h"

namespace tessera::report {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string describe(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::none: return "nothing";
    case Value::Kind::tensor: return fmt::format("{}{}", name_of(value.tensor().dtype()), to_string(value.tensor().shape()));
    case Value::Kind::sequence: return fmt::format("a sequence of {}", value.elements().size());
    case Value::Kind::map: return fmt::format("a map of {}", value.elements().size());
  }
  return "";
}

class Comparison {
 public:
  explicit Comparison(std::string name) { result_.name = std::move(name); }

  OutputDifference run(const Value& a, const Value& b) {
    result_.identical = true;
    compare(a, b);
    result_.relative = result_.largest > 0 && scale_ > 0 ? result_.largest / scale_ : result_.largest;
    return result_;
  }

 private:
  void compare(const Value& a, const Value& b) {
    if (describe(a) != describe(b)) {
      result_.identical = false;
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
    if (a.dtype() == DType::string || is_complex(a.dtype())) {
      if (identical(a, b)) return;
      result_.identical = false;
      result_.largest = kInfinity;
      return;
    }
    result_.identical = result_.identical && identical(a, b);
    const std::vector<double> x = backends::reference::read<double>(a), y = backends::reference::read<double>(b);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::isfinite(x[i])) scale_ = std::max(scale_, std::abs(x[i]));
      const bool same = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]));
      const double apart = same ? 0 : std::abs(x[i] - y[i]);
      result_.largest = std::max(result_.largest, std::isnan(apart) ? kInfinity : apart);
    }
  }

  OutputDifference result_;
  double scale_ = 0;
};

}  // namespace

std::vector<OutputDifference> output_differences(const NamedValues& a, const NamedValues& b) {
  std::vector<OutputDifference> differences;
  for (const auto& [name, value] : a) {
    const auto other = b.find(name);
    differences.push_back(Comparison(name).run(value, other != b.end() ? other->second : Value()));
  }
  return differences;
}

}  // namespace tessera::report
