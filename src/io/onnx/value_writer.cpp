// Writes values outside models: the files of ONNX test data.
#include "base/error.h"
#include "io/onnx/exporter.h"
#include "io/onnx/writer.h"

namespace tessera::io {
namespace {

using tessera_onnx::MapProto;
using tessera_onnx::OptionalProto;
using tessera_onnx::SequenceProto;
using tessera_onnx::TensorProto;

// elem_type of a SequenceProto or OptionalProto.
std::int32_t element_kind(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::tensor:
      return 1;
    case Value::Kind::sequence:
      return 3;
    case Value::Kind::map:
      return 4;
    case Value::Kind::none:
      return 5;
  }
  return 0;
}

void fill(const Tensor& tensor, TensorProto& proto) {
  proto.set_data_type(static_cast<std::int32_t>(tensor.dtype()));
  proto.mutable_dims()->Assign(tensor.shape().begin(), tensor.shape().end());
  store_inside(tensor, proto);
}

void fill(const Value& map, MapProto& proto);

void fill(const std::vector<Value>& elements, SequenceProto& proto) {
  if (!elements.empty()) proto.set_elem_type(element_kind(elements[0]));
  for (const Value& element : elements) {
    require(element.kind() == elements[0].kind(), ErrorKind::unsupported,
            "ONNX has no sequence of values of different kinds");
    switch (element.kind()) {
      case Value::Kind::tensor:
        fill(element.tensor(), *proto.add_tensor_values());
        break;
      case Value::Kind::sequence:
        fill(element.elements(), *proto.add_sequence_values());
        break;
      case Value::Kind::map:
        fill(element, *proto.add_map_values());
        break;
      case Value::Kind::none:
        proto.add_optional_values();
        break;
    }
  }
}

void fill(const Value& map, MapProto& proto) {
  const Tensor& keys = map.keys();
  proto.set_key_type(static_cast<std::int32_t>(keys.dtype()));
  if (keys.dtype() == DType::string) {
    for (const std::string& key : keys.values<std::string>()) proto.add_string_keys(key);
  } else {
    proto.mutable_keys()->Assign(keys.data<std::int64_t>(), keys.data<std::int64_t>() + keys.elements());
  }
  fill(map.elements(), *proto.mutable_values());
}

template <typename Proto, typename Content>
std::vector<std::byte> serialised(const Content& content, const std::string& name) {
  Proto proto;
  proto.set_name(name);
  fill(content, proto);
  return serialise(proto);
}

}  // namespace

std::vector<std::byte> write_value_proto(const Value& value, const std::string& name) {
  switch (value.kind()) {
    case Value::Kind::tensor:
      return serialised<TensorProto>(value.tensor(), name);
    case Value::Kind::sequence:
      return serialised<SequenceProto>(value.elements(), name);
    case Value::Kind::map:
      return serialised<MapProto>(value, name);
    case Value::Kind::none:
      break;
  }
  OptionalProto proto;
  proto.set_name(name);
  return serialise(proto);
}

}  // namespace tessera::io
