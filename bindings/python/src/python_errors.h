// Turns Tessera's errors into Python exceptions, and Python's own exceptions into C++ ones.
#pragma once

#include <nanobind/nanobind.h>

namespace tessera::python {

// Makes every tessera::Error that leaves a bound function an exception of the class for its kind in tessera._errors,
// with the attributes `message` and `context`. To be called once, when the module is initialised.
void translate_errors();

}  // namespace tessera::python
