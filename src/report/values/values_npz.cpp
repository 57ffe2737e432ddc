#include <algorithm>

#include "backends/host/movement.h"
#include "base/error.h"
#include "io/npy.h"
#include "io/npy_raw.h"
#include "io/npz.h"
#include "report/values/value_files.h"

namespace tessera::report {
namespace {

using Arrays = std::map<std::string, Tensor>;
using Kind = ir::ValueType::Kind;

bool is_map(const Value& value) {
  return value.kind() == Value::Kind::map;
}

// The tensors as one, [count, …]; nothing unless all are tensors of one type and shape.
std::optional<Tensor> stack(std::span<const Value> values) {
  const auto fits = [&](const Value& value) {
    return value.is_tensor() && value.tensor().dtype() == values[0].tensor().dtype() &&
           value.tensor().shape() == values[0].tensor().shape();
  };
  if (values.empty() || !values[0].is_tensor() || !std::all_of(values.begin(), values.end(), fits)) return std::nullopt;
  Shape shape = values[0].tensor().shape();
  shape.insert(shape.begin(), static_cast<std::int64_t>(values.size()));
  Tensor result(values[0].tensor().dtype(), std::move(shape));
  const std::int64_t each = values[0].tensor().elements();
  for (std::size_t i = 0; i < values.size(); ++i)
    backends::host::copy_run(values[i].tensor(), 0, result, static_cast<std::int64_t>(i) * each, each);
  return result;
}

bool all_maps_of_equal_keys(const std::vector<Value>& elements) {
  return std::all_of(elements.begin(), elements.end(), [&](const Value& element) {
    return is_map(element) && identical(element.keys(), elements[0].keys());
  });
}

void put(const std::string& name, const Value& value, Arrays& arrays) {
  constexpr std::string_view elsewhere = "an .npz archive cannot hold (a .json file can)";
  require(value.has_value(), ErrorKind::unsupported, "'{}' is absent, which {}", name, elsewhere);
  if (value.is_tensor()) {
    arrays[name] = value.tensor();
    return;
  }
  const std::vector<Value>& elements = value.elements();
  require(!elements.empty(), ErrorKind::unsupported, "'{}' is an empty {}, which {}", name,
          is_map(value) ? "map" : "sequence", elsewhere);
  std::optional<Tensor> values;
  if (is_map(value)) {
    values = stack(elements);
    require(values.has_value(), ErrorKind::unsupported,
            "'{}' is a map with values of different types or shapes, which {}", name, elsewhere);
  } else if (all_maps_of_equal_keys(elements)) {
    std::vector<Value> rows;
    for (const Value& element : elements) {
      std::optional<Tensor> row = stack(element.elements());
      if (row) rows.emplace_back(*std::move(row));
    }
    if (rows.size() == elements.size()) values = stack(rows);
  }
  if (values) {
    arrays[name + "/keys"] = is_map(value) ? value.keys() : elements[0].keys();
    arrays[name + "/values"] = *std::move(values);
    return;
  }
  for (std::size_t i = 0; i < elements.size(); ++i) put(fmt::format("{}/{}", name, i), elements[i], arrays);
}

Tensor slice(const Tensor& tensor, std::int64_t i) {
  Tensor result(tensor.dtype(), Shape(tensor.shape().begin() + 1, tensor.shape().end()));
  backends::host::copy_run(tensor, i * result.elements(), result, 0, result.elements());
  return result;
}

// The declared element type of an array of this name: that of the value, or of the sequence or map that it is a part
// of; undefined if unknown.
DType declared_type(std::string_view array, const TypesByName& types) {
  for (std::size_t end = array.size(); end != std::string_view::npos && end > 0; end = array.rfind('/', end - 1)) {
    const auto found = types.find(array.substr(0, end));
    if (found == types.end()) continue;
    const ir::ValueType* type = &found->second;
    while (!type->is_tensor() && type->element != nullptr) type = type->element.get();
    return type->is_tensor() ? type->dtype : DType::undefined;
  }
  return DType::undefined;
}

void check_raw_type(const std::string& name, DType found, DType declared) {
  if (!io::is_raw_type(declared) || found == declared || found == DType::string) return;
  fail(ErrorKind::invalid_argument,
       "'{}' has element type {}, expected {}, which NumPy lacks; save it as a type of the Python package ml_dtypes: "
       "{}.astype(ml_dtypes.{})",
       name, name_of(found), name_of(declared), name, io::ml_dtypes_name(declared));
}

// Collects the arrays of values that are not plain tensors.
class Collector {
 public:
  explicit Collector(Arrays arrays) : arrays_(std::move(arrays)) {}

  bool has(const std::string& name) const { return arrays_.contains(name); }

  Tensor take(const std::string& name) {
    const auto found = arrays_.find(name);
    require(found != arrays_.end(), ErrorKind::invalid_argument, "the archive has no array '{}'", name);
    Tensor tensor = std::move(found->second);
    arrays_.erase(found);
    return tensor;
  }

  // Whether the archive has any part of this value.
  bool has_parts(const std::string& name) const {
    const auto next = arrays_.lower_bound(name + "/");
    return next != arrays_.end() && next->first.starts_with(name + "/");
  }

  Value collect(const std::string& name, const ir::ValueType& type) {
    if (type.kind == Kind::optional) return collect(name, *type.element);
    if (type.is_tensor()) return take(name);
    if (has(name + "/keys")) {
      const Tensor keys = take(name + "/keys"), values = take(name + "/values");
      const bool rows = type.kind == Kind::sequence;
      const std::size_t axis = rows ? 1 : 0;
      require(values.rank() > static_cast<std::int64_t>(axis) && values.shape()[axis] == keys.elements(),
              ErrorKind::invalid_argument, "'{0}/values' has shape {1} for {2} keys of '{0}'", name,
              to_string(values.shape()), keys.elements());
      if (!rows) return map(keys, values);
      std::vector<Value> maps;
      for (std::int64_t i = 0; i < values.shape()[0]; ++i) maps.push_back(map(keys, slice(values, i)));
      return Value::sequence(std::move(maps));
    }
    require(type.kind == Kind::sequence, ErrorKind::invalid_argument, "the archive has no array '{}/keys'", name);
    std::vector<Value> elements;
    for (;;) {
      const std::string part = fmt::format("{}/{}", name, elements.size());
      if (!has(part) && !has_parts(part)) break;
      elements.push_back(collect(part, *type.element));
    }
    require(!elements.empty(), ErrorKind::invalid_argument, "the archive has no array '{}/0'", name);
    return Value::sequence(std::move(elements));
  }

  Arrays rest() && { return std::move(arrays_); }

 private:
  static Value map(const Tensor& keys, const Tensor& values) {
    std::vector<Value> parts;
    for (std::int64_t i = 0; i < keys.elements(); ++i) parts.emplace_back(slice(values, i));
    return Value::map(keys, std::move(parts));
  }

  Arrays arrays_;
};

}  // namespace

void write_values_npz(const std::filesystem::path& path, const NamedValues& values) {
  Arrays arrays;
  for (const auto& [name, value] : values) put(name, value, arrays);
  io::write_npz(path, arrays);
}

NamedValues read_values_npz(const std::filesystem::path& path, const TypesByName& types) {
  const auto raw_type = [&](const std::string& name) { return declared_type(name, types); };
  Arrays arrays = io::read_npz(path, {}, raw_type);
  for (const auto& [name, tensor] : arrays) check_raw_type(name, tensor.dtype(), declared_type(name, types));
  Collector collector(std::move(arrays));
  NamedValues values;
  for (const auto& [name, type] : types) {
    if (!type.is_tensor() && collector.has_parts(name)) values[name] = collector.collect(name, type);
  }
  for (auto& [name, tensor] : std::move(collector).rest()) values[name] = std::move(tensor);
  return values;
}

Tensor read_tensor_npy(const std::filesystem::path& path, const std::string& name, const TypesByName& types) {
  const DType declared = declared_type(name, types);
  Tensor tensor = io::read_npy(path, declared);
  check_raw_type(name, tensor.dtype(), declared);
  return tensor;
}

}  // namespace tessera::report
