#include "io/onnx/parsed_model.h"

#include <google/protobuf/io/coded_stream.h>

#include "base/error.h"
#include "io/onnx/message_memory.h"
#include "io/onnx/wire.h"

namespace tessera::io {
namespace {

// The depth of messages: a subgraph is three messages deeper than its graph (node, attribute, graph). The rest is for
// types and tensors.
int message_depth(const ModelLimits& limits) {
  // Functions that visit subgraphs recurse once per level, so the stack limits the nesting.
  require(limits.max_nesting >= 0 && limits.max_nesting <= 64, ErrorKind::invalid_argument,
          "max_nesting is {}, expected 0 to 64", limits.max_nesting);
  return static_cast<int>(3 * limits.max_nesting + 40);
}

}  // namespace

ParsedModel parse_model(std::span<const std::byte> bytes, const ModelLimits& limits) {
  require(!bytes.empty(), ErrorKind::invalid_model, "the file is empty");
  check_parsed_size(bytes, MessageKind::model, limits.max_parsed_bytes, message_depth(limits));
  SplitModel split = split_model(bytes);
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(split.structure.data()),
                                                static_cast<int>(split.structure.size()));
  stream.SetRecursionLimit(message_depth(limits));
  ParsedModel parsed;
  require(parsed.model.MergeFromCodedStream(&stream) && stream.ConsumedEntireMessage(), ErrorKind::invalid_model,
          "not an ONNX model, corrupt, or with subgraphs nested deeper than {}", limits.max_nesting);
  parsed.raw_data = std::move(split.raw_data);
  return parsed;
}

}  // namespace tessera::io
