#include "ops/values/sequence.h"

#include "backends/backend.h"
#include "backends/host/movement.h"
#include "backends/reference/index.h"
#include "ops/core/shape_arguments.h"
#include "ops/movement/concat.h"
#include "ops/movement/reshape.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// Copies a tensor: elements of a sequence own their storage, since an operand's memory may be reused after the node.
Value keep(const KernelContext& context, const Tensor& tensor) {
  return Value(context.resources().copy(tensor));
}

void check_dtype(const Tensor& first, const Tensor& next) {
  require(first.dtype() == next.dtype(), ErrorKind::invalid_model, "a sequence of {} cannot hold {}",
          name_of(first.dtype()), name_of(next.dtype()));
}

std::vector<std::int64_t> split_lengths(KernelContext& context, std::int64_t dim) {
  if (context.has_input(1) && context.input(1).rank() > 0) {
    std::vector<std::int64_t> lengths = ops::integers_of(context.input(1));
    ops::check_split(lengths, dim);
    return lengths;
  }
  const std::int64_t part = context.has_input(1) ? ops::single_integer(context.input(1), "split") : 1;
  require(part > 0, ErrorKind::failed, "cannot split into parts of {}", part);
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(dim / part), part);
  if (dim % part > 0) lengths.push_back(dim % part);
  return lengths;
}

}  // namespace

void sequence_construct(KernelContext& context) {
  std::vector<Value> elements;
  for (std::size_t i = 0; i < context.input_count(); ++i) elements.push_back(keep(context, context.input(i)));
  context.set_output(0, Value::sequence(std::move(elements)));
}

void sequence_empty(KernelContext& context) {
  context.set_output(0, Value::sequence({}));
}

void sequence_insert(KernelContext& context) {
  std::vector<Value> elements = context.input_value(0).elements();
  const std::int64_t count = static_cast<std::int64_t>(elements.size());
  if (count > 0) check_dtype(elements[0].tensor(), context.input(1));
  const std::int64_t position = context.has_input(2) ? ops::single_integer(context.input(2), "position") : count;
  // There is one position more than there are elements; negative positions count from the old end.
  require(position >= -count && position <= count, ErrorKind::failed, "index {} is outside [{}, {}]", position, -count,
          count);
  elements.insert(elements.begin() + (position < 0 ? position + count : position), keep(context, context.input(1)));
  context.set_output(0, Value::sequence(std::move(elements)));
}

void sequence_erase(KernelContext& context) {
  std::vector<Value> elements = context.input_value(0).elements();
  const std::int64_t position = context.has_input(1) ? ops::single_integer(context.input(1), "position") : -1;
  elements.erase(elements.begin() + normalise_index(position, static_cast<std::int64_t>(elements.size())));
  context.set_output(0, Value::sequence(std::move(elements)));
}

void sequence_at(KernelContext& context) {
  const std::vector<Value>& elements = context.input_value(0).elements();
  const std::int64_t position = ops::single_integer(context.input(1), "position");
  const Tensor& element = elements[normalise_index(position, static_cast<std::int64_t>(elements.size()))].tensor();
  copy_run(element, 0, context.allocate_output(0, element.dtype(), element.shape()), 0, element.elements());
}

void sequence_length(KernelContext& context) {
  context.output(0).mutable_data<std::int64_t>()[0] =
      static_cast<std::int64_t>(context.input_value(0).elements().size());
}

void split_to_sequence(KernelContext& context) {
  const Tensor& input = context.input(0);
  const std::int64_t axis = ops::normalise_axis(context.integer("axis"), input.rank());
  const AxisView view = axis_view(input.shape(), axis);
  const bool squeezed = !context.has_input(1) && context.integer("keepdims") == 0;
  std::vector<Value> elements;
  std::int64_t start = 0;
  for (std::int64_t length : split_lengths(context, input.shape()[axis])) {
    Shape shape = input.shape();
    shape[axis] = length;
    Tensor part = context.resources().allocate(input.dtype(), shape);
    const std::int64_t run = length * view.inner;
    for (std::int64_t o = 0; o < view.outer; ++o) {
      copy_run(input, (o * view.length + start) * view.inner, part, o * run, run);
    }
    start += length;
    if (squeezed) shape.erase(shape.begin() + axis);
    elements.emplace_back(context.resources().with_characters(std::move(part)).reshaped(shape));
  }
  context.set_output(0, Value::sequence(std::move(elements)));
}

void concat_from_sequence(KernelContext& context) {
  const std::vector<Value>& elements = context.input_value(0).elements();
  require(!elements.empty(), ErrorKind::failed, "cannot join an empty sequence");
  const bool new_axis = context.integer("new_axis") != 0;
  const Tensor& first = elements[0].tensor();
  const std::int64_t axis = ops::normalise_axis(context.integer("axis"), first.rank() + (new_axis ? 1 : 0));
  std::vector<ir::Dims> dims;
  for (const Value& element : elements) {
    check_dtype(first, element.tensor());
    dims.push_back(ir::to_dims(element.tensor().shape()));
    if (new_axis) {
      require(element.tensor().rank() == first.rank(), ErrorKind::failed, "cannot join {} and {}: their ranks differ",
              to_string(first.shape()), to_string(element.tensor().shape()));
      dims.back().insert(dims.back().begin() + axis, ir::Dim(1));
    }
  }
  Tensor& output = context.allocate_output(0, first.dtype(), ops::concrete_shape(ops::concat_dims(dims, axis)));
  const AxisView whole = axis_view(output.shape(), axis);
  std::int64_t start = 0;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const std::int64_t length = dims[i][axis].value(), run = length * whole.inner;
    for (std::int64_t o = 0; o < whole.outer; ++o) {
      copy_run(elements[i].tensor(), o * run, output, (o * whole.length + start) * whole.inner, run);
    }
    start += length;
  }
}

}  // namespace tessera::backends::reference
