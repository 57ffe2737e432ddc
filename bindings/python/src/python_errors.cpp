#include "python_errors.h"

#include <nanobind/stl/string.h>

#include <exception>
#include <string>

#include "tessera/error.h"

namespace nb = nanobind;

namespace tessera::python {
namespace {

const char* class_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument:
      return "InvalidArgument";
    case ErrorKind::invalid_model:
      return "InvalidModel";
    case ErrorKind::unsupported:
      return "Unsupported";
    case ErrorKind::not_found:
      return "NotFound";
    case ErrorKind::io:
      return "IOFailure";
    case ErrorKind::over_budget:
      return "OverBudget";
    case ErrorKind::cancelled:
      return "Cancelled";
    case ErrorKind::failed:
      return "Failed";
  }
  return "Error";
}

nb::object decoded(const std::string& text) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

void raise(const Error& error) {
  try {
    const nb::object type = nb::module_::import_("tessera._errors").attr(class_name(error.kind()));
    const nb::object exception = type(decoded(error.what()));
    exception.attr("message") = decoded(error.message());
    nb::list context;
    for (const std::string& place : error.context()) context.append(decoded(place));
    exception.attr("context") = nb::tuple(context);
    PyErr_SetObject(type.ptr(), exception.ptr());
  } catch (nb::python_error& failure) {
    failure.restore();
  }
}

}  // namespace

void translate_errors() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      raise(error);
    }
  });
}

}  // namespace tessera::python
