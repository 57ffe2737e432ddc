// The parts that make up the module, and the classes that several parts use.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/type.h"
#include "tessera/session.h"

namespace tessera::python {

void bind_tensor(nanobind::module_& module);
void bind_model(nanobind::module_& module);
void bind_session(nanobind::module_& module);
void bind_io_binding(nanobind::module_& module);
void bind_reports(nanobind::module_& module);
void bind_training(nanobind::module_& module);
void bind_language(nanobind::module_& module);
void bind_sharing(nanobind::module_& module);
void bind_compression(nanobind::module_& module);
void bind_server(nanobind::module_& module);  // in builds with the server
void bind_library(nanobind::module_& module);

// A session with the additional state that runs from Python need. Thread-safe except for end(), which does not wait.
class PySession {
 public:
  PySession(const Model& model, const SessionOptions& options);

  Session& session() { return *session_; }
  const Model& model() const { return model_; }
  const SessionOptions& options() const { return options_; }

  // The type of the input, or of the initializer that may be overridden, of this name; null if there is none.
  const ir::ValueType* type_of_input(const std::string& name) const;
  // The inputs by name from a dict. Throws Error(invalid_argument) that names the input.
  NamedValues inputs_from(nanobind::dict feeds) const;
  // Requests for the outputs of these names, in their order; a name may occur more than once.
  std::vector<OutputRequest> requests_from(nanobind::handle names) const;
  const std::vector<OutputRequest>& all_outputs() const { return all_outputs_; }

 private:
  Model model_;
  SessionOptions options_;
  std::unique_ptr<Session> session_;
  std::unordered_map<std::string, const ir::ValueType*> input_types_;
  std::unordered_map<std::string, ir::ValueType> overridable_types_;
  std::vector<OutputRequest> all_outputs_;
};

// The RunOptions of Python, with the objects that they point to.
struct PyRunOptions {
  RunOptions options;
  std::shared_ptr<Cancellation> cancellation;  // null if Ctrl-C alone stops the run
};

// Collects Tessera's messages for Python's logging until the lock is held.
void keep_messages();
// Passes the collected messages to the logger "tessera". Cheap if there are none. Needs the lock.
void pass_messages();

// A path from str, bytes or os.PathLike; throws TypeError for others.
std::string path_from_python(nanobind::handle path);

}  // namespace tessera::python
