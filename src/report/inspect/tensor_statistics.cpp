#include "report/inspect/tensor_statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/host/numeric.h"

namespace tessera::report {
namespace {

// Elements that are converted to double at a time; a whole number of bytes for packed types.
constexpr std::int64_t kBlockElements = 1 << 16;

// Sums relative to the first finite element, so that a large mean does not hide a small deviation.
class Sums {
 public:
  void add(double value) {
    zeros_ += value == 0;
    if (!std::isfinite(value)) {
      ++not_finite_;
      return;
    }
    if (finite_ == 0) shift_ = minimum_ = maximum_ = value;
    minimum_ = std::min(minimum_, value);
    maximum_ = std::max(maximum_, value);
    const double offset = value - shift_;
    sum_ += offset;
    squares_ += offset * offset;
    ++finite_;
  }

  TensorStatistics result() const {
    TensorStatistics statistics;
    statistics.not_finite = not_finite_;
    statistics.known = finite_ > 0;
    if (!statistics.known) return statistics;
    const double count = static_cast<double>(finite_), mean_offset = sum_ / count;
    statistics.minimum = minimum_;
    statistics.maximum = maximum_;
    statistics.mean = shift_ + mean_offset;
    statistics.deviation = std::sqrt(std::max(0.0, squares_ / count - mean_offset * mean_offset));
    statistics.zeros = static_cast<double>(zeros_) / static_cast<double>(finite_ + not_finite_);
    return statistics;
  }

 private:
  double shift_ = 0, minimum_ = 0, maximum_ = 0, sum_ = 0, squares_ = 0;
  std::int64_t finite_ = 0, not_finite_ = 0, zeros_ = 0;
};

}  // namespace

TensorStatistics statistics_of(const Tensor& tensor) {
  if (tensor.dtype() == DType::string || is_complex(tensor.dtype()) || !tensor.has_data()) return {};
  const Tensor contents = tensor.contents();
  Sums sums;
  for (std::int64_t done = 0; done < contents.elements(); done += kBlockElements) {
    const Shape shape{std::min(kBlockElements, contents.elements() - done)};
    std::byte* begin =
        static_cast<std::byte*>(const_cast<void*>(contents.raw())) + done * bits_of(contents.dtype()) / 8;
    for (const double value : backends::host::read<double>(Tensor(contents.dtype(), shape, begin, nullptr)))
      sums.add(value);
  }
  return sums.result();
}

}  // namespace tessera::report
