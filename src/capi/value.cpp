// The values of the C interface.
#include <cstring>

#include "capi/handles.h"
#include "tessera/view.h"

using namespace tessera;
using namespace tessera::capi;

namespace {

DType checked_type(tessera_dtype dtype) {
  require(dtype > TESSERA_UNDEFINED && dtype < kDTypeCount, ErrorKind::invalid_argument,
          "dtype is {}, expected one of TESSERA_F32 to TESSERA_I2", dtype);
  return static_cast<DType>(dtype);
}

Shape shape_of(const int64_t* shape, std::size_t rank) {
  if (rank == 0) return {};
  required(shape, "shape");
  return Shape(shape, shape + rank);
}

// The type and shape of a tensor over the caller's memory, checked against its size in bytes.
std::pair<DType, Shape> layout_of(tessera_dtype dtype, const int64_t* shape, std::size_t rank, const void* data,
                                  std::size_t bytes) {
  std::pair<DType, Shape> layout{checked_type(dtype), shape_of(shape, rank)};
  require(layout.first != DType::string, ErrorKind::invalid_argument, "strings are made by tessera_value_strings");
  const std::int64_t expected = byte_count(layout.first, layout.second);
  require(bytes == static_cast<std::size_t>(expected), ErrorKind::invalid_argument,
          "{} bytes given for {}{}, expected {}", bytes, name_of(layout.first), to_string(layout.second), expected);
  if (bytes > 0) required(data, "data");
  return layout;
}

// The tensor in a handle; null for a value of another kind and for an invalid handle.
const Tensor* tensor_in(const tessera_value* value) {
  return is_valid(value) && value->value.is_tensor() ? &value->value.tensor() : nullptr;
}

bool has_elements(const tessera_value* value) {
  return is_valid(value) && (value->value.kind() == Value::Kind::sequence || value->value.kind() == Value::Kind::map);
}

std::vector<Value> values_of(const tessera_value* const* values, std::size_t count, const char* parameter) {
  if (count > 0) required(values, parameter);
  std::vector<Value> result;
  for (std::size_t i = 0; i < count; ++i)
    result.push_back(checked(values[i], fmt::format("{}[{}]", parameter, i).c_str(), "tessera_value").value);
  return result;
}

}  // namespace

tessera_status tessera_value_view(tessera_dtype dtype, const int64_t* shape, size_t rank, const void* data,
                                  size_t bytes, tessera_value** value, tessera_error** error) {
  return guarded(error, [&] {
    tessera_value*& result = result_place(value, "value");
    auto [type, dims] = layout_of(dtype, shape, rank, data, bytes);
    result = new tessera_value{tessera_value::kTag, view_of(type, std::move(dims), data)};
  });
}

tessera_status tessera_value_wrap(tessera_dtype dtype, const int64_t* shape, size_t rank, void* data, size_t bytes,
                                  tessera_value** value, tessera_error** error) {
  return guarded(error, [&] {
    tessera_value*& result = result_place(value, "value");
    auto [type, dims] = layout_of(dtype, shape, rank, data, bytes);
    result = new tessera_value{tessera_value::kTag, Tensor(type, std::move(dims), data, nullptr), true};
  });
}

tessera_status tessera_value_copy(tessera_dtype dtype, const int64_t* shape, size_t rank, const void* data,
                                  size_t bytes, tessera_value** value, tessera_error** error) {
  return guarded(error, [&] {
    tessera_value*& result = result_place(value, "value");
    auto [type, dims] = layout_of(dtype, shape, rank, data, bytes);
    Tensor copy(type, std::move(dims));
    if (bytes > 0) std::memcpy(copy.mutable_raw(), data, bytes);
    result = new tessera_value{tessera_value::kTag, std::move(copy)};
  });
}

tessera_status tessera_value_strings(const int64_t* shape, size_t rank, const char* const* strings,
                                     const size_t* lengths, size_t count, tessera_value** value,
                                     tessera_error** error) {
  return guarded(error, [&] {
    tessera_value*& result = result_place(value, "value");
    const Shape dims = shape_of(shape, rank);
    require(element_count(dims) == static_cast<std::int64_t>(count), ErrorKind::invalid_argument,
            "{} strings given for shape {}", count, to_string(dims));
    if (count > 0) required(strings, "strings");
    Tensor tensor(DType::string, dims);
    for (std::size_t i = 0; i < count; ++i) {
      const char* text = required(strings[i], "a string");
      tensor.mutable_data<std::string>()[i] = lengths != nullptr ? std::string(text, lengths[i]) : std::string(text);
    }
    result = new tessera_value{tessera_value::kTag, std::move(tensor)};
  });
}

tessera_status tessera_value_sequence(const tessera_value* const* elements, size_t count, tessera_value** value,
                                      tessera_error** error) {
  return guarded(error, [&] {
    tessera_value*& result = result_place(value, "value");
    result = new tessera_value{tessera_value::kTag, Value::sequence(values_of(elements, count, "elements"))};
  });
}

tessera_status tessera_value_map(const tessera_value* keys, const tessera_value* const* values, size_t count,
                                 tessera_value** value, tessera_error** error) {
  return guarded(error, [&] {
    tessera_value*& result = result_place(value, "value");
    const Tensor& names = checked(keys, "keys", "tessera_value").value.tensor();
    result = new tessera_value{tessera_value::kTag, Value::map(names, values_of(values, count, "values"))};
  });
}

void tessera_value_free(tessera_value* value) {
  free_handle(value);
}

tessera_kind tessera_value_kind(const tessera_value* value) {
  return is_valid(value) ? static_cast<tessera_kind>(value->value.kind()) : TESSERA_NONE;
}
tessera_dtype tessera_value_dtype(const tessera_value* value) {
  return tensor_in(value) != nullptr ? static_cast<tessera_dtype>(tensor_in(value)->dtype()) : TESSERA_UNDEFINED;
}
int64_t tessera_value_rank(const tessera_value* value) {
  return tensor_in(value) != nullptr ? tensor_in(value)->rank() : -1;
}
const int64_t* tessera_value_shape(const tessera_value* value) {
  return tensor_in(value) != nullptr ? tensor_in(value)->shape().data() : nullptr;
}
size_t tessera_value_element_count(const tessera_value* value) {
  return tensor_in(value) != nullptr ? static_cast<size_t>(tensor_in(value)->elements()) : 0;
}
size_t tessera_value_bytes(const tessera_value* value) {
  return tensor_in(value) != nullptr ? static_cast<size_t>(tensor_in(value)->bytes()) : 0;
}

const void* tessera_value_data(const tessera_value* value) try {
  const Tensor* tensor = tensor_in(value);
  return tensor != nullptr && tensor->dtype() != DType::string ? tensor->raw() : nullptr;
} catch (...) {
  return nullptr;
}

const char* tessera_value_string(const tessera_value* value, size_t index, size_t* length) {
  const Tensor* tensor = tensor_in(value);
  if (tensor == nullptr || tensor->dtype() != DType::string || index >= static_cast<std::size_t>(tensor->elements()))
    return nullptr;
  const std::string& text = static_cast<const std::string*>(tensor->raw())[index];
  if (length != nullptr) *length = text.size();
  return text.c_str();
}

size_t tessera_value_length(const tessera_value* value) {
  return has_elements(value) ? value->value.elements().size() : 0;
}

tessera_status tessera_value_element(const tessera_value* value, size_t index, tessera_value** element,
                                     tessera_error** error) {
  return guarded(error, [&] {
    tessera_value*& result = result_place(element, "element");
    const std::vector<Value>& elements = checked(value, "value", "tessera_value").value.elements();
    require(index < elements.size(), ErrorKind::invalid_argument, "index is {}, expected less than {}", index,
            elements.size());
    result = new tessera_value{tessera_value::kTag, elements[index]};
  });
}

tessera_status tessera_value_keys(const tessera_value* value, tessera_value** keys, tessera_error** error) {
  return guarded(error, [&] {
    tessera_value*& result = result_place(keys, "keys");
    result = new tessera_value{tessera_value::kTag, checked(value, "value", "tessera_value").value.keys()};
  });
}
