// Loops of element-wise reference kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/backend.h"
#include "backends/host/numeric.h"

namespace tessera::backends::reference {

using namespace host;

// y_i = f(x_i) computed in the wide type of x; y has any type that `write` supports.
template <typename F>
void map_elements(KernelContext& context, F f) {
  with_wide_type(context.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> values = read<T>(context.input(0));
    for (T& value : values) value = static_cast<T>(f(value));
    write(values, context.output(0));
  });
}

// y_i = f(x_i) computed in double, also for integers.
template <typename F>
void map_as_double(KernelContext& context, F f) {
  std::vector<double> values = read<double>(context.input(0));
  for (double& value : values) value = f(value);
  write(values, context.output(0));
}

}  // namespace tessera::backends::reference
