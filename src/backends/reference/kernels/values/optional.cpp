#include "backends/backend.h"
#include "backends/host/movement.h"
#include "base/error.h"

namespace tessera::backends::reference {

using namespace host;

// An optional is represented by its value, or by no value. A tensor inside owns its storage, as in a sequence.
void optional_of(KernelContext& context) {
  if (!context.has_input(0)) return context.set_output(0, Value());
  const Value& value = context.input_value(0);
  context.set_output(0, value.is_tensor() ? Value(context.resources().copy(value.tensor())) : value);
}

void optional_has_element(KernelContext& context) {
  context.output(0).mutable_data<bool>()[0] = context.has_input(0);
}

void optional_get_element(KernelContext& context) {
  require(context.has_input(0), ErrorKind::failed, "the optional is empty");
  const Value& value = context.input_value(0);
  if (!value.is_tensor()) return context.set_output(0, value);
  const Tensor& tensor = value.tensor();
  copy_run(tensor, 0, context.allocate_output(0, tensor.dtype(), tensor.shape()), 0, tensor.elements());
}

}  // namespace tessera::backends::reference
