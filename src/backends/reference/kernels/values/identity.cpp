#include "backends/backend.h"
#include "backends/host/movement.h"
#include "backends/host/numeric.h"
#include "backends/host/random.h"
#include "base/error.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// The single element of an optional input, or `otherwise` if it is absent.
double scalar_input(const KernelContext& context, std::size_t i, double otherwise) {
  if (!context.has_input(i)) return otherwise;
  const Tensor& value = context.input(i);
  require(value.elements() == 1, ErrorKind::invalid_model, "input '{}' has shape {}, expected a scalar",
          context.op().inputs[i].name, to_string(value.shape()));
  return read<double>(value)[0];
}

}  // namespace

void identity(KernelContext& context) {
  const Value& input = context.input_value(0);
  if (!input.is_tensor()) {
    context.set_output(0, input);
    return;
  }
  Tensor& output = context.allocate_output(0, input.tensor().dtype(), input.tensor().shape());
  if (!input.tensor().shares_storage_with(output)) copy_run(input.tensor(), 0, output, 0, output.elements());
}

void dropout(KernelContext& context) {
  const Tensor& input = context.input(0);
  const double ratio = scalar_input(context, 1, 0.5);
  const bool training = scalar_input(context, 2, 0) != 0 && ratio != 0;
  require(ratio >= 0 && ratio < 1, ErrorKind::invalid_argument, "ratio is {}, expected a number in [0, 1)", ratio);
  std::vector<std::uint64_t> mask(static_cast<std::size_t>(input.elements()), 1);
  if (training) {
    base::Philox random = random_of(context);
    for (std::uint64_t& keep : mask) keep = random.next_uniform() >= ratio ? 1 : 0;
  }
  if (context.wants_output(0)) {
    std::vector<double> values = read<double>(input);
    for (std::size_t i = 0; training && i < values.size(); ++i) values[i] = mask[i] != 0 ? values[i] / (1 - ratio) : 0;
    write(values, context.output(0));
  }
  if (context.wants_output(1)) write(mask, context.output(1));
}

}  // namespace tessera::backends::reference
