#include "backends/host/random.h"

#include <algorithm>
#include <cmath>

#include "backends/backend.h"
#include "backends/host/numeric.h"
#include "base/error.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

void fill_normal(KernelContext& context) {
  base::Philox random = random_of(context);
  const double mean = context.real("mean"), scale = context.real("scale");
  std::vector<double> values = transient_vector<double>(context.output(0).elements());
  for (double& value : values) value = mean + scale * random.next_normal();
  write(values, context.output(0));
}

void fill_uniform(KernelContext& context) {
  base::Philox random = random_of(context);
  const double low = context.real("low"), high = context.real("high");
  std::vector<double> values = transient_vector<double>(context.output(0).elements());
  for (double& value : values) value = low + (high - low) * random.next_uniform();
  write(values, context.output(0));
}

}  // namespace

void random_normal(KernelContext& context) {
  fill_normal(context);
}

void random_normal_like(KernelContext& context) {
  fill_normal(context);
}

void random_uniform(KernelContext& context) {
  fill_uniform(context);
}

void random_uniform_like(KernelContext& context) {
  fill_uniform(context);
}

void bernoulli(KernelContext& context) {
  base::Philox random = random_of(context);
  std::vector<double> values = read<double>(context.input(0));
  for (double& value : values) value = random.next_uniform() < value ? 1 : 0;
  write(values, context.output(0));
}

void multinomial(KernelContext& context) {
  base::Philox random = random_of(context);
  const std::int64_t batch = context.input(0).shape()[0], classes = context.input(0).shape()[1];
  const std::vector<double> scores = read<double>(context.input(0));
  std::vector<std::int64_t> result = transient_vector<std::int64_t>(context.output(0).elements());
  require(classes > 0 || result.empty(), ErrorKind::failed, "there are no classes to draw from");
  std::vector<double> cumulative(static_cast<std::size_t>(classes));
  for (std::size_t i = 0, row = 0; row < static_cast<std::size_t>(batch) && !result.empty(); ++row) {
    const double* first = scores.data() + row * cumulative.size();
    const double largest = *std::max_element(first, first + classes);
    double sum = 0;
    for (std::size_t c = 0; c < cumulative.size(); ++c) cumulative[c] = sum += std::exp(first[c] - largest);
    for (std::int64_t sample = 0; sample < context.integer("sample_size"); ++sample) {
      const auto drawn = std::upper_bound(cumulative.begin(), cumulative.end(), random.next_uniform() * sum);
      result[i++] = std::min<std::int64_t>(drawn - cumulative.begin(), classes - 1);
    }
  }
  write(result, context.output(0));
}

}  // namespace tessera::backends::reference
