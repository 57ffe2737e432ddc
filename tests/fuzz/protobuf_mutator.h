// Mutations of serialised ONNX messages that keep their structure: what comes out is again a message of the schema, and
// often a model that gets past the first checks. Equal arguments give equal results.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tessera::fuzz {

class ProtobufMutator {
 public:
  // `schema` is a file that protoc wrote from onnx.proto (--descriptor_set_out). Throws Error(not_found) when it is
  // none.
  explicit ProtobufMutator(const std::string& schema);
  ~ProtobufMutator();

  // One to a few random edits: numbers towards the edges of their ranges, names for other names, fields and elements
  // added, removed, doubled, moved, and what is particular to ONNX (a new node of any operator, a tensor of another
  // type and shape). `type` is a message's name ("ModelProto"). Empty when `bytes` are no such message.
  std::string mutate(std::string_view type, std::string_view bytes, std::uint64_t seed) const;
  // `bytes` with a part of `other` put in.
  std::string cross_over(std::string_view type, std::string_view bytes, std::string_view other,
                         std::uint64_t seed) const;

 private:
  struct Schema;
  std::unique_ptr<Schema> schema_;
};

}  // namespace tessera::fuzz
