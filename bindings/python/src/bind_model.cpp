// tessera._core.Model and ValueInfo.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "base/error.h"
#include "bindings.h"
#include "gil.h"
#include "io/onnx/mapped_file.h"
#include "io/onnx/reader.h"
#include "io/onnx/writer.h"
#include "io/package.h"
#include "ir/graph.h"
#include "runtime/session/overridable.h"
#include "tessera/model.h"
#include "tessera/protect.h"

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

using InitialValues = std::map<std::string, Tensor>;

// Values from a dict of arrays, or none from None.
InitialValues values_from(nb::handle initialisers) {
  InitialValues values;
  if (initialisers.is_none()) return values;
  for (const auto& [key, item] : nb::cast<nb::dict>(initialisers)) {
    std::string name = name_from_python(key, "the name of an initializer");
    const Tensor value = tensor_from_python(item, DType::undefined, "the value of initializer '" + name + "'");
    values.emplace(std::move(name), value);
  }
  return values;
}

Model read_model(std::span<const std::byte> data, const std::shared_ptr<const void>& owner,
                 const std::optional<std::filesystem::path>& folder, InitialValues values) {
  use_key_of_environment();
  if (values.empty()) return Model::from_bytes(data, owner, folder);
  require(!io::is_container(data), ErrorKind::unsupported,
          "the initializers of a .tsr file cannot be replaced; load the .onnx file that it was made from");
  const io::ReadOptions how{.initializers = std::move(values)};
  return Model(std::make_shared<const ir::Graph>(io::read_model_bytes(data, how, owner, folder)));
}

Model load_model(const std::filesystem::path& path, InitialValues values, const KeySource& key) {
  use_key_of_environment();
  if (values.empty()) return Model::load(path, {}, key.is_set() ? make_model_key(key) : nullptr);
  const std::shared_ptr<const io::MappedFile> file = io::MappedFile::map(io::InputFile::open(path));
  return read_model(file->bytes(), file, path.parent_path(), std::move(values));
}

// Keeps the bytes object whose memory the model uses.
Model model_from_bytes(const nb::bytes& bytes, const std::optional<std::filesystem::path>& folder,
                       InitialValues values) {
  const std::shared_ptr<const void> owner(bytes.ptr(), [](const void* object) {
    if (!may_take_gil()) return;
    const WithGil lock;
    Py_DECREF(static_cast<PyObject*>(const_cast<void*>(object)));
  });
  Py_INCREF(bytes.ptr());
  const std::span<const std::byte> data(static_cast<const std::byte*>(bytes.data()), bytes.size());
  const WithoutGil released;
  return read_model(data, owner, folder, std::move(values));
}

nb::list descriptions(const std::vector<ValueDescription>& values) {
  nb::list list;
  for (const ValueDescription& value : values) list.append(nb::cast(value));
  return list;
}

nb::object listed(const std::vector<ValueDescription>& values) {
  std::string text;
  for (const ValueDescription& value : values) text += (text.empty() ? "" : ", ") + value.name + ": " + value.type;
  return python_text(text);
}

// The arguments by which pickle recreates the model: the bytes of the .onnx file that save() writes.
nb::tuple reduced_model(const Model& model) {
  const std::vector<std::byte> bytes = [&] {
    const WithoutGil released;
    return io::write_model_bytes(model.graph());
  }();
  const nb::object make = nb::module_::import_("tessera._session").attr("unpickled_model");
  return nb::make_tuple(make, nb::make_tuple(nb::bytes(bytes.data(), bytes.size())));
}

}  // namespace

std::string path_from_python(nb::handle path) {
  nb::object text;
  try {
    text = nb::module_::import_("os").attr("fsencode")(path);
  } catch (const nb::python_error& error) {
    if (!error.matches(PyExc_UnicodeError)) throw;
    fail(ErrorKind::invalid_argument, "'{}' cannot be a path: it has half of a surrogate pair", text_of(path));
  }
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
          [](nb::object path, nb::object initialisers, nb::object key_file, const std::string& key_command,
             nb::object password_file) {
            const std::string file = path_from_python(path);
            KeySource key{.command = key_command};
            if (!key_file.is_none()) key.file = path_from_python(key_file);
            if (!password_file.is_none()) key.password_file = path_from_python(password_file);
            InitialValues values = values_from(initialisers);
            const auto result = [&] {
              const WithoutGil released;
              return load_model(file, std::move(values), key);
            }();
            pass_messages();
            return result;
          },
          "path"_a, "initializers"_a.none() = nb::none(), nb::kw_only(), "key_file"_a.none() = nb::none(),
          "key_command"_a = "", "password_file"_a.none() = nb::none(),
          "Reads an .onnx file or maps a .tsr file. `initializers`: values in place of the file's, by name. A "
          "protected "
          ".tsr file is opened by a key file, by the key file that a shell command prints, or by a password; without "
          "one of them by what TESSERA_KEY_FILE, TESSERA_KEY_COMMAND or TESSERA_PASSWORD_FILE say.")
      .def_static(
          "from_bytes",
          [](const nb::bytes& data, nb::object folder, nb::object initialisers) {
            std::optional<std::filesystem::path> external;
            if (!folder.is_none()) external = path_from_python(folder);
            Model model = model_from_bytes(data, external, values_from(initialisers));
            pass_messages();
            return model;
          },
          "data"_a, "external_data_folder"_a.none() = nb::none(), "initializers"_a.none() = nb::none(),
          "The same from memory, which is kept and not copied.")
      .def("with_dims", &Model::with_dims, "dims"_a, "A copy with symbolic dimensions of inputs fixed.")
      .def("__reduce__", &reduced_model)
      .def("__repr__",
           [](const Model& self) {
             return nb::str("<tessera.Model {} ({}) -> ({})>")
                 .attr("format")(python_text(self.metadata().graph_name), listed(self.inputs()),
                                 listed(self.outputs()));
           })
      .def(
          "save", [](const Model& self, nb::object path) { self.save(path_from_python(path)); }, "path"_a,
          "Writes an .onnx file.")
      .def_prop_ro("inputs", [](const Model& self) { return descriptions(self.inputs()); })
      .def_prop_ro("outputs", [](const Model& self) { return descriptions(self.outputs()); })
      .def_prop_ro(
          "overridable", [](const Model& self) { return descriptions(runtime::overridable_inputs(self)); },
          "Inputs with a default: initialisers that a run may override by their names.")
      .def_prop_ro("metadata",
                   [](const Model& self) {
                     nb::object result = metadata_dict(self.metadata());
                     const auto& all = self.graph().metadata;
                     const auto found = all.find("graph_doc_string");
                     result["graph_doc_string"] = python_text(found != all.end() ? found->second : std::string());
                     return result;
                   })
      .def_prop_ro("has_variables", [](const Model& self) { return !self.graph().variables().empty(); });
}

}  // namespace tessera::python
