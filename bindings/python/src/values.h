// Values of a graph from Python's objects and back.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include "ir/type.h"
#include "tessera/tensor.h"

namespace tessera::python {

// By the declared type: an array for a tensor, a list or tuple for a sequence, a dict for a map, None for an absent
// optional. Throws as tensor_from_python does.
Value value_from_python(nanobind::handle object, const ir::ValueType& declared, std::string_view what);
// An array, a list, a dict, or None. Tensors of rank 0 in a map become Python's numbers, as in the results of
// classifiers. Tensors in sequences and maps are copied: they may be parts of an input.
nanobind::object python_from_value(const Value& value);

}  // namespace tessera::python
