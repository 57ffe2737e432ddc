#include <cmath>

#include "backends/host/numeric.h"
#include "base/error.h"
#include "conformance/conformance.h"

namespace tessera::conformance {
namespace {

bool close(double actual, double expected, SuiteTolerance tolerance) {
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) && std::isnan(actual);
  if (std::isinf(expected) || std::isinf(actual)) return expected == actual;
  return std::fabs(actual - expected) <= tolerance.absolute + tolerance.relative * std::fabs(expected);
}

// `T` is double, or complex, of which both parts must be close.
template <typename T>
std::string compare_numbers(const Tensor& actual, const Tensor& expected, SuiteTolerance tolerance) {
  const std::vector<T> a = backends::host::read<T>(actual), b = backends::host::read<T>(expected);
  std::size_t wrong = 0, first = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same =
        close(std::real(a[i]), std::real(b[i]), tolerance) && close(std::imag(a[i]), std::imag(b[i]), tolerance);
    if (!same && wrong++ == 0) first = i;
  }
  if (wrong == 0) return "";
  return fmt::format("{} of {} elements differ; element {} is {}, expected {}", wrong, a.size(), first,
                     std::real(a[first]), std::real(b[first]));
}

std::string compare_tensors(const Tensor& actual, const Tensor& expected, SuiteTolerance tolerance) {
  if (actual.dtype() != expected.dtype())
    return fmt::format("element type {}, expected {}", name_of(actual.dtype()), name_of(expected.dtype()));
  if (actual.shape() != expected.shape())
    return fmt::format("shape {}, expected {}", to_string(actual.shape()), to_string(expected.shape()));
  if (is_complex(actual.dtype())) return compare_numbers<std::complex<double>>(actual, expected, tolerance);
  if (is_float(actual.dtype())) return compare_numbers<double>(actual, expected, tolerance);
  if (actual.dtype() == DType::string) return identical(actual, expected) ? "" : "strings differ";
  return compare_numbers<double>(actual, expected, {0, 0});
}

}  // namespace

std::string difference(const Value& actual, const Value& expected, SuiteTolerance tolerance) {
  if (actual.kind() != expected.kind()) return "another kind of value (tensor, sequence, map or nothing)";
  if (actual.is_tensor()) return compare_tensors(actual.tensor(), expected.tensor(), tolerance);
  if (!actual.has_value()) return "";
  if (actual.kind() == Value::Kind::map) {
    if (const std::string keys = compare_tensors(actual.keys(), expected.keys(), tolerance); !keys.empty())
      return "keys: " + keys;
  }
  if (actual.elements().size() != expected.elements().size())
    return fmt::format("{} elements, expected {}", actual.elements().size(), expected.elements().size());
  for (std::size_t i = 0; i < actual.elements().size(); ++i) {
    const std::string found = difference(actual.elements()[i], expected.elements()[i], tolerance);
    if (!found.empty()) return fmt::format("element {}: {}", i, found);
  }
  return "";
}

}  // namespace tessera::conformance
