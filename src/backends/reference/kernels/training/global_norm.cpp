#include <cmath>

#include "backends/host/numeric.h"
#include "backends/reference/kernels/training/kernels.h"

namespace tessera::backends::reference {

using namespace host;

void global_norm(KernelContext& context) {
  const double scale = read<double>(context.input(0)).at(0);
  double sum = 0;
  for (std::size_t i = 1; i < context.input_count(); ++i) {
    for (const double x : read<double>(context.input(i))) sum += (scale * x) * (scale * x);
  }
  write(std::vector<double>{std::sqrt(sum)}, context.output(0));
}

}  // namespace tessera::backends::reference
