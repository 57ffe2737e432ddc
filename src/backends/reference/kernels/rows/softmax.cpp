#include <algorithm>
#include <cmath>

#include "backends/backend.h"
#include "backends/host/numeric.h"
#include "backends/reference/lines.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// Replaces each line of the input along `axis` by the result of body(line).
template <typename Body>
void map_lines(KernelContext& context, Body body) {
  const Tensor& input = context.input(0);
  std::vector<double> x = read<double>(input), line;
  const std::int64_t axis = ops::normalise_axis(context.integer("axis"), input.rank());
  for_each_line(input.shape(), axis, [&](std::int64_t offset, std::int64_t length, std::int64_t stride) {
    line.resize(static_cast<std::size_t>(length));
    for (std::size_t i = 0; i < line.size(); ++i)
      line[i] = x[static_cast<std::size_t>(offset) + i * static_cast<std::size_t>(stride)];
    if (!line.empty()) body(line);
    for (std::size_t i = 0; i < line.size(); ++i)
      x[static_cast<std::size_t>(offset) + i * static_cast<std::size_t>(stride)] = line[i];
  });
  write(x, context.output(0));
}

// Shifts the line by its largest element; returns the sum of its exponentials.
double shift_and_sum(std::vector<double>& line) {
  const double largest = *std::max_element(line.begin(), line.end());
  double sum = 0;
  for (double& value : line) {
    value -= largest;
    sum += std::exp(value);
  }
  return sum;
}

}  // namespace

void softmax(KernelContext& context) {
  map_lines(context, [](std::vector<double>& line) {
    const double sum = shift_and_sum(line);
    for (double& value : line) value = std::exp(value) / sum;
  });
}

void log_softmax(KernelContext& context) {
  map_lines(context, [](std::vector<double>& line) {
    const double sum = shift_and_sum(line);
    for (double& value : line) value -= std::log(sum);
  });
}

void hardmax(KernelContext& context) {
  map_lines(context, [](std::vector<double>& line) {
    const auto largest = std::max_element(line.begin(), line.end()) - line.begin();
    std::fill(line.begin(), line.end(), 0.0);
    line[static_cast<std::size_t>(largest)] = 1;
  });
}

}  // namespace tessera::backends::reference
