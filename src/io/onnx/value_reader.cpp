// Reads values outside models: the files of ONNX test data.
#include <google/protobuf/io/coded_stream.h>

#include "base/error.h"
#include "io/onnx/mapped_file.h"
#include "io/onnx/message_memory.h"
#include "io/onnx/reader.h"
#include "io/onnx/tensor_reader.h"

namespace tessera::io {
namespace {

using tessera_onnx::MapProto;
using tessera_onnx::OptionalProto;
using tessera_onnx::SequenceProto;

constexpr int kMaxDepth = 64;

template <typename Proto>
Proto parse(std::span<const std::byte> bytes, MessageKind kind, std::string_view what) {
  require(bytes.size() < (std::size_t{1} << 31), ErrorKind::over_budget,
          "a {} of {} bytes; less than 2 GiB is supported", what, bytes.size());
  check_parsed_size(bytes, kind, ModelLimits().max_parsed_bytes, kMaxDepth);
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(kMaxDepth);
  Proto proto;
  require(proto.MergeFromCodedStream(&stream) && stream.ConsumedEntireMessage(), ErrorKind::invalid_model,
          "not a {}, or truncated", what);
  return proto;
}

class ValueReader {
 public:
  Value sequence(const SequenceProto& proto) {
    std::vector<Value> elements;
    for (const auto& tensor : proto.tensor_values()) elements.emplace_back(tensors_.read(tensor));
    for (const auto& inner : proto.sequence_values()) elements.push_back(sequence(inner));
    for (const auto& inner : proto.map_values()) elements.push_back(map(inner));
    for (const auto& inner : proto.optional_values()) elements.push_back(optional(inner));
    require(proto.sparse_tensor_values_size() == 0, ErrorKind::unsupported, "sequences of sparse tensors");
    return Value::sequence(std::move(elements));
  }

  Value map(const MapProto& proto) {
    Value values = sequence(proto.values());
    const bool text = to_key_type(proto.key_type()) == DType::string;
    const auto count = static_cast<std::int64_t>(text ? proto.string_keys_size() : proto.keys_size());
    require(count == static_cast<std::int64_t>(values.elements().size()), ErrorKind::invalid_model,
            "a map of {} keys and {} values", count, values.elements().size());
    Tensor keys(text ? DType::string : DType::i64, {count});
    if (text) std::copy(proto.string_keys().begin(), proto.string_keys().end(), keys.mutable_data<std::string>());
    else std::copy(proto.keys().begin(), proto.keys().end(), keys.mutable_data<std::int64_t>());
    try {
      return Value::map(std::move(keys), values.elements());
    } catch (const Error& error) {
      throw Error(ErrorKind::invalid_model, error.message());
    }
  }

  Value optional(const OptionalProto& proto) {
    require(!proto.has_sparse_tensor_value(), ErrorKind::unsupported, "optionals of sparse tensors");
    // An empty tensor_value of the right kind stands for "no value" in some writers; a tensor always has a type.
    if (proto.has_tensor_value() && proto.tensor_value().data_type() != 0) return tensors_.read(proto.tensor_value());
    if (proto.has_sequence_value()) return sequence(proto.sequence_value());
    if (proto.has_map_value()) return map(proto.map_value());
    if (proto.has_optional_value()) return optional(proto.optional_value());
    return {};
  }

 private:
  TensorReader tensors_{std::nullopt, nullptr, 0};  // sparse values are refused
};

}  // namespace

Tensor read_tensor_proto(std::span<const std::byte> bytes) {
  return TensorReader(std::nullopt, nullptr, 0)
      .read(parse<tessera_onnx::TensorProto>(bytes, MessageKind::tensor, "TensorProto"));
}

Value read_value_proto(std::span<const std::byte> bytes, const ir::ValueType& type) {
  switch (type.kind) {
    case ir::ValueType::Kind::sequence:
      return ValueReader().sequence(parse<SequenceProto>(bytes, MessageKind::sequence, "SequenceProto"));
    case ir::ValueType::Kind::optional:
      return ValueReader().optional(parse<OptionalProto>(bytes, MessageKind::optional, "OptionalProto"));
    case ir::ValueType::Kind::map:
      return ValueReader().map(parse<MapProto>(bytes, MessageKind::map, "MapProto"));
    default:
      return read_tensor_proto(bytes);
  }
}

Value read_value_proto(const std::filesystem::path& path, const ir::ValueType& type) {
  try {
    return read_value_proto(MappedFile::map(InputFile::open(path))->bytes(), type);
  } catch (Error& error) {
    error.add_context("file " + path.string());
    throw;
  }
}

}  // namespace tessera::io
