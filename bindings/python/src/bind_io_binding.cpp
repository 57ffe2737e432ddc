// tessera._core.IoBinding: inputs and outputs that are set once and reused from run to run.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "arrays.h"
#include "base/error.h"
#include "bindings.h"
#include "gil.h"
#include "ir/graph.h"
#include "runtime/session/overridable.h"
#include "values.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tessera::python {
namespace {

class IoBinding {
 public:
  explicit IoBinding(Model model) : model_(std::move(model)) {}

  void bind_input(const std::string& name, nb::handle array) {
    inputs_.insert_or_assign(name, value_from_python(array, type_of_input(name), "input '" + name + "'"));
  }
  // Binds the output to the caller's memory or, if the array is None, to memory that each run allocates.
  void bind_output(const std::string& name, nb::handle array) {
    Tensor memory;
    if (!array.is_none()) memory = writable_from_python(array, "the array for output '" + name + "'");
    const auto found = std::ranges::find(outputs_, name, &OutputRequest::name);
    if (found == outputs_.end()) outputs_.emplace_back(name, memory);
    else found->into = memory;
  }
  void clear_inputs() { inputs_.clear(); }
  void clear_outputs() {
    outputs_.clear();
    results_.clear();
  }

  void run(PySession& session, const PyRunOptions* given) {
    require(!outputs_.empty(), ErrorKind::invalid_argument, "no output is bound: nothing would be computed");
    results_ = interruptible(
        [&](const Cancellation* cancellation) {
          RunOptions options = given != nullptr ? given->options : RunOptions();
          options.cancellation = cancellation;
          return session.session().run(inputs_, outputs_, options);
        },
        given != nullptr ? given->cancellation.get() : nullptr);
    pass_messages();
  }

  // The outputs of the latest run, in the order in which they were bound: tensors, or Python objects for other values.
  nb::list results() const {
    nb::list list;
    for (const Value& value : results_) {
      if (value.is_tensor()) list.append(nb::cast(PyTensor{value.tensor()}));
      else list.append(python_from_value(value));
    }
    return list;
  }
  std::vector<std::string> output_names() const {
    std::vector<std::string> names;
    for (const OutputRequest& output : outputs_) names.push_back(output.name);
    return names;
  }

 private:
  ir::ValueType type_of_input(const std::string& name) const {
    const ir::Graph& graph = model_.graph();
    for (const ir::ValueId id : graph.inputs()) {
      if (graph.value(id).name == name) return graph.value(id).type;
    }
    for (const ValueDescription& each : runtime::overridable_inputs(model_)) {
      if (each.name == name) return ir::ValueType::tensor(each.dtype);
    }
    fail(ErrorKind::invalid_argument, "the model has no input '{}'", name);
  }

  Model model_;
  NamedValues inputs_;
  std::vector<OutputRequest> outputs_;
  std::vector<Value> results_;
};

IoBinding* make_binding(const PySession& session) {
  return new IoBinding(session.model());
}

}  // namespace

void bind_io_binding(nb::module_& module) {
  nb::class_<IoBinding>(module, "IoBinding")
      .def(nb::new_(&make_binding), "session"_a)
      .def("bind_input", &IoBinding::bind_input, "name"_a, "array"_a.none())
      .def("bind_output", &IoBinding::bind_output, "name"_a, "array"_a.none() = nb::none())
      .def("clear_inputs", &IoBinding::clear_inputs)
      .def("clear_outputs", &IoBinding::clear_outputs)
      .def("run", &IoBinding::run, "session"_a, "options"_a.none() = nb::none())
      .def("results", &IoBinding::results)
      .def("output_names", &IoBinding::output_names);
}

}  // namespace tessera::python
