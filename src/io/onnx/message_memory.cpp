#include "io/onnx/message_memory.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/numbers/units.h"
#include "io/onnx/field_reader.h"
#include "onnx.pb.h"

namespace tessera::io {
namespace {

using enum MessageKind;
namespace proto = tessera_onnx;

// Bytes of each kind of message in memory, in the order of MessageKind.
constexpr std::size_t kMessageBytes[] = {sizeof(proto::ModelProto),
                                         sizeof(proto::OperatorSetIdProto),
                                         sizeof(proto::StringStringEntryProto),
                                         sizeof(proto::GraphProto),
                                         sizeof(proto::NodeProto),
                                         sizeof(proto::AttributeProto),
                                         sizeof(proto::TensorProto),
                                         sizeof(proto::TensorProto::Segment),
                                         sizeof(proto::SparseTensorProto),
                                         sizeof(proto::ValueInfoProto),
                                         sizeof(proto::TypeProto),
                                         sizeof(proto::TypeProto::Tensor),
                                         sizeof(proto::TensorShapeProto),
                                         sizeof(proto::TensorShapeProto::Dimension),
                                         sizeof(proto::TypeProto::Sequence),
                                         sizeof(proto::TypeProto::Map),
                                         sizeof(proto::TypeProto::Opaque),
                                         sizeof(proto::FunctionProto),
                                         sizeof(proto::TrainingInfoProto),
                                         sizeof(proto::TensorAnnotation),
                                         sizeof(proto::DeviceConfigurationProto),
                                         sizeof(proto::NodeDeviceConfigurationProto),
                                         sizeof(proto::ShardingSpecProto),
                                         sizeof(proto::ShardedDimProto),
                                         sizeof(proto::SimpleShardedDimProto),
                                         sizeof(proto::IntIntListEntryProto),
                                         sizeof(proto::SequenceProto),
                                         sizeof(proto::MapProto),
                                         sizeof(proto::OptionalProto)};

// The pointer to a block, the overhead of the allocator, and spare capacity of a growing list.
constexpr std::int64_t kBlockBytes = 32;
constexpr std::int64_t kTextBytes = sizeof(std::string) + kBlockBytes;

// A field that holds messages.
struct Inner {
  MessageKind message;
  std::uint32_t field;
  MessageKind content;
};
constexpr Inner kInner[] = {
    {model, 7, graph},
    {model, 8, opset},
    {model, 14, entry},
    {model, 20, training},
    {model, 25, function},
    {model, 26, device},
    {graph, 1, node},
    {graph, 5, tensor},
    {graph, 11, value_info},
    {graph, 12, value_info},
    {graph, 13, value_info},
    {graph, 14, annotation},
    {graph, 15, sparse_tensor},
    {graph, 16, entry},
    {node, 5, attribute},
    {node, 9, entry},
    {node, 10, node_device},
    {attribute, 5, tensor},
    {attribute, 6, graph},
    {attribute, 10, tensor},
    {attribute, 11, graph},
    {attribute, 14, type},
    {attribute, 15, type},
    {attribute, 22, sparse_tensor},
    {attribute, 23, sparse_tensor},
    {tensor, 3, segment},
    {tensor, 13, entry},
    {tensor, 16, entry},
    {sparse_tensor, 1, tensor},
    {sparse_tensor, 2, tensor},
    {value_info, 2, type},
    {value_info, 4, entry},
    {type, 1, tensor_type},
    {type, 4, element_type},
    {type, 5, map_type},
    {type, 7, opaque_type},
    {type, 8, tensor_type},
    {type, 9, element_type},
    {tensor_type, 2, shape},
    {shape, 1, dimension},
    {element_type, 1, type},
    {map_type, 2, type},
    {function, 7, node},
    {function, 9, opset},
    {function, 11, attribute},
    {function, 12, value_info},
    {function, 14, entry},
    {training, 1, graph},
    {training, 2, graph},
    {training, 3, entry},
    {training, 4, entry},
    {annotation, 2, entry},
    {node_device, 2, sharding_spec},
    {sharding_spec, 3, device_groups},
    {sharding_spec, 4, sharded_dim},
    {sharded_dim, 2, simple_sharded_dim},
    {sequence, 3, tensor},
    {sequence, 4, sparse_tensor},
    {sequence, 5, sequence},
    {sequence, 6, map},
    {sequence, 7, optional},
    {map, 5, sequence},
    {optional, 3, tensor},
    {optional, 4, sparse_tensor},
    {optional, 5, sequence},
    {optional, 6, map},
    {optional, 7, optional},
};

// A field with a list of integers, and the bytes of one in memory, where it may have a single byte in the file.
struct Integers {
  MessageKind message;
  std::uint32_t field;
  std::int64_t element_bytes;
};
constexpr Integers kIntegers[] = {
    {attribute, 8, 8},     {tensor, 1, 8}, {tensor, 5, 4},        {tensor, 7, 8},        {tensor, 11, 8},
    {sparse_tensor, 3, 8}, {map, 3, 8},    {sharding_spec, 2, 8}, {device_groups, 2, 8},
};

// Fields of a fixed width, which take as much in memory: floats and doubles.
constexpr bool is_plain_list(MessageKind message, std::uint64_t field) {
  return (message == attribute && field == 7) || (message == tensor && (field == 4 || field == 10));
}

template <typename Table>
auto find(const Table& table, MessageKind message, std::uint64_t field) {
  const auto found = std::find_if(std::begin(table), std::end(table),
                                  [&](const auto& row) { return row.message == message && row.field == field; });
  return found == std::end(table) ? nullptr : &*found;
}

class Counter {
 public:
  Counter(std::int64_t limit, int max_depth) : limit_(limit), max_depth_(max_depth) {}

  void add_message(std::span<const std::byte> bytes, MessageKind kind, std::size_t offset, int depth) {
    add(static_cast<std::int64_t>(kMessageBytes[static_cast<std::size_t>(kind)]) + kBlockBytes);
    if (depth > max_depth_) return;
    for (FieldReader reader(bytes, offset); !reader.done();) {
      const WireField field = reader.next();
      if (const Integers* integers = find(kIntegers, kind, field.number)) {
        // Every number ends with a byte below 128.
        const auto ends = field.type == length_delimited
                              ? std::count_if(field.payload.begin(), field.payload.end(),
                                              [](std::byte byte) { return byte < std::byte{0x80}; })
                              : 1;
        add(ends * integers->element_bytes);
      } else if (field.type == length_delimited && !is_plain_list(kind, field.number)) {
        if (const Inner* inner = find(kInner, kind, field.number))
          add_message(field.payload, inner->content, reader.offset_of(field.payload), depth + 1);
        else add(kTextBytes);
      }
    }
  }

 private:
  void add(std::int64_t bytes) {
    total_ += bytes;
    if (total_ <= limit_) [[likely]]
      return;
    fail(ErrorKind::over_budget, "its nodes, attributes and names take more than {} of memory, which is the limit",
         base::format_bytes(limit_));
  }

  const std::int64_t limit_;
  const int max_depth_;
  std::int64_t total_ = 0;
};

}  // namespace

void check_parsed_size(std::span<const std::byte> message, MessageKind kind, std::int64_t max_bytes, int max_depth) {
  Counter(max_bytes, max_depth).add_message(message, kind, 0, 0);
}

}  // namespace tessera::io
