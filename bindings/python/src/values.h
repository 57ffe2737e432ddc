// Converts between Python objects and values of a graph.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include "ir/type.h"
#include "tessera/tensor.h"

namespace tessera::python {

// Converts by the declared type: an array to a tensor, a list or tuple to a sequence, a dict to a map, None to an
// absent optional. Throws as tensor_from_python does.
Value value_from_python(nanobind::handle object, const ir::ValueType& declared, std::string_view what);
// An array, a list, a dict, or None. Tensors of rank 0 in a map become Python numbers, as in the results of
// classifiers. Tensors in sequences and maps are copied, because they may be parts of an input.
nanobind::object python_from_value(const Value& value);

}  // namespace tessera::python
