// tessera._core.Model and ValueInfo.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <filesystem>
#include <optional>

#include "arrays.h"
#include "base/error.h"
#include "bindings.h"
#include "gil.h"
#include "ir/graph.h"
#include "tessera/model.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tessera::python {
namespace {

nb::list shape_list(const ValueDescription& value) {
  nb::list shape;
  for (std::size_t i = 0; i < value.dims.size(); ++i) {
    if (value.dims[i] >= 0) shape.append(value.dims[i]);
    else if (!value.dim_names[i].empty()) shape.append(python_text(value.dim_names[i]));
    else shape.append(nb::none());
  }
  return shape;
}

nb::object metadata_dict(const ModelMetadata& metadata) {
  nb::dict properties, opsets, result;
  for (const auto& [key, value] : metadata.properties) properties[python_text(key)] = python_text(value);
  for (const auto& [domain, version] : metadata.opsets) opsets[python_text(domain)] = version;
  result["producer_name"] = python_text(metadata.producer_name);
  result["producer_version"] = python_text(metadata.producer_version);
  result["domain"] = python_text(metadata.domain);
  result["doc_string"] = python_text(metadata.doc_string);
  result["graph_name"] = python_text(metadata.graph_name);
  result["model_version"] = metadata.model_version;
  result["ir_version"] = metadata.ir_version;
  result["opsets"] = opsets;
  result["properties"] = properties;
  return result;
}

// Holds the bytes object whose memory the model reads.
Model model_from_bytes(const nb::bytes& bytes, const std::optional<std::string>& folder) {
  const std::shared_ptr<const void> owner(bytes.ptr(), [](const void* object) {
    if (!may_take_gil()) return;
    const WithGil lock;
    Py_DECREF(static_cast<PyObject*>(const_cast<void*>(object)));
  });
  Py_INCREF(bytes.ptr());
  const std::span<const std::byte> data(static_cast<const std::byte*>(bytes.data()), bytes.size());
  const WithoutGil released;
  return Model::from_bytes(
      data, owner, folder ? std::optional<std::filesystem::path>(*folder) : std::optional<std::filesystem::path>());
}

nb::list descriptions(const std::vector<ValueDescription>& values) {
  nb::list list;
  for (const ValueDescription& value : values) list.append(nb::cast(value));
  return list;
}

}  // namespace

std::string path_from_python(nb::handle path) {
  const nb::object text = nb::module_::import_("os").attr("fsencode")(path);
  return {PyBytes_AsString(text.ptr()), static_cast<std::size_t>(PyBytes_Size(text.ptr()))};
}

void bind_model(nb::module_& module) {
  nb::class_<ValueDescription>(module, "ValueInfo", "An input or output as the model declares it.")
      .def_prop_ro("name", [](const ValueDescription& self) { return python_text(self.name); })
      .def_prop_ro(
          "type", [](const ValueDescription& self) { return python_text(self.type); },
          "As text: 'f32[batch, 3, 224, 224]'.")
      .def_prop_ro("dtype",
                   [](const ValueDescription& self) -> nb::object {
                     return self.dtype == DType::undefined ? nb::none() : python_text(name_of(self.dtype));
                   })
      .def_prop_ro(
          "shape",
          [](const ValueDescription& self) -> nb::object {
            if (!self.rank_known) return nb::none();
            return shape_list(self);
          },
          "Numbers, names, and None where nothing is known; None where the rank is not known.")
      .def("__repr__", [](const ValueDescription& self) { return python_text(self.name + ": " + self.type); });
  nb::class_<Model>(module, "Model", "A network, read from a file; immutable.")
      .def_static(
          "load",
          [](nb::object path) {
            const std::string file = path_from_python(path);
            const auto result = [&] {
              const WithoutGil released;
              return Model::load(file);
            }();
            pass_messages();
            return result;
          },
          "path"_a, "Reads an .onnx file or maps a .tsr file.")
      .def_static(
          "from_bytes",
          [](const nb::bytes& data, nb::object folder) {
            const std::optional<std::string> external =
                folder.is_none() ? std::nullopt : std::optional(path_from_python(folder));
            Model model = model_from_bytes(data, external);
            pass_messages();
            return model;
          },
          "data"_a, "external_data_folder"_a.none() = nb::none(), "The same from memory, which is kept and not copied.")
      .def("with_dims", &Model::with_dims, "dims"_a, "A copy with symbolic dimensions of inputs fixed.")
      .def(
          "save", [](const Model& self, nb::object path) { self.save(path_from_python(path)); }, "path"_a,
          "Writes an .onnx file.")
      .def_prop_ro("inputs", [](const Model& self) { return descriptions(self.inputs()); })
      .def_prop_ro("outputs", [](const Model& self) { return descriptions(self.outputs()); })
      .def_prop_ro("metadata", [](const Model& self) { return metadata_dict(self.metadata()); })
      .def_prop_ro("has_variables", [](const Model& self) { return !self.graph().variables().empty(); });
}

}  // namespace tessera::python
