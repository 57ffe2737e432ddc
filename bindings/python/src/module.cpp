// The extension module tessera._core, which converts arguments and calls the library. The package around it is written
// in Python.
#include <nanobind/nanobind.h>

#include "bindings.h"
#include "python_errors.h"

NB_MODULE(_core, module) {
  using namespace tessera::python;
  nanobind::set_leak_warnings(false);  // objects that live until the interpreter ends, such as caches, are no leaks
  translate_errors();
  keep_messages();
  bind_tensor(module);
  bind_model(module);
  bind_session(module);
  bind_io_binding(module);
  bind_reports(module);
  bind_training(module);
  bind_language(module);
  bind_sharing(module);
  bind_compression(module);
#ifdef TESSERA_WITH_SERVER
  bind_server(module);
#endif
  bind_library(module);
}
