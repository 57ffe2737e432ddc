// Bounds the memory that parsing a message will take, before it is parsed. An empty node has two bytes in a file and
// two hundred in memory, so a small file can ask for a lot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tessera::io {

enum class MessageKind : std::uint8_t {
  model,
  opset,
  entry,
  graph,
  node,
  attribute,
  tensor,
  segment,
  sparse_tensor,
  value_info,
  type,
  tensor_type,
  shape,
  dimension,
  element_type,
  map_type,
  opaque_type,
  function,
  training,
  annotation,
  device,
  node_device,
  sharding_spec,
  sharded_dim,
  simple_sharded_dim,
  device_groups,
  sequence,
  map,
  optional,
};

// Throws Error(over_budget) when the parsed message would take more than `max_bytes` in addition to the characters and
// bytes of data in it, and Error(invalid_model) when its encoding is broken. Messages nested deeper than `max_depth`
// are skipped: the parser refuses them.
void check_parsed_size(std::span<const std::byte> message, MessageKind kind, std::int64_t max_bytes, int max_depth);

}  // namespace tessera::io
