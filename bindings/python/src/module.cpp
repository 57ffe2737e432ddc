// The extension module tessera._core. It converts arguments and calls the library; the package around it is Python.
#include <nanobind/nanobind.h>

#include "bindings.h"
#include "python_errors.h"

NB_MODULE(_core, module) {
  using namespace tessera::python;
  nanobind::set_leak_warnings(false);  // what lives at the interpreter's end, caches say, is no leak
  translate_errors();
  keep_messages();
  bind_tensor(module);
  bind_model(module);
  bind_session(module);
  bind_io_binding(module);
  bind_reports(module);
  bind_training(module);
  bind_sharing(module);
  bind_compression(module);
#ifdef TESSERA_WITH_SERVER
  bind_server(module);
#endif
  bind_library(module);
}
