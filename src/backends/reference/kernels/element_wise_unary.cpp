#include <cmath>

#include "backends/reference/kernels/kernels.h"
#include "backends/reference/numeric.h"

namespace tessera::backends::reference {
namespace {

// y = f(x) in the wide type of x.
template <typename F>
void map_elements(KernelContext& context, F f) {
  with_wide_type(context.input(0).dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> values = read<T>(context.input(0));
    for (T& value : values) value = static_cast<T>(f(value));
    write(values, context.output(0));
  });
}

}  // namespace

void relu(KernelContext& context) {
  map_elements(context, [](auto x) { return x < 0 ? decltype(x){0} : x; });
}

void sigmoid(KernelContext& context) {
  map_elements(context, [](auto x) { return 1.0 / (1.0 + std::exp(-static_cast<double>(x))); });
}

}  // namespace tessera::backends::reference
