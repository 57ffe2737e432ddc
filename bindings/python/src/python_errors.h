// Tessera's errors as Python exceptions, and Python's own as C++ ones.
#pragma once

#include <nanobind/nanobind.h>

namespace tessera::python {

// Makes every tessera::Error that leaves a bound function an exception of the class in tessera._errors for its kind,
// with the attributes `message` and `context`. Call once, when the module is made.
void translate_errors();

}  // namespace tessera::python
