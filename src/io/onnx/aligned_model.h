// Encodes a model so that its weights can be used in place in a mapped file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "onnx.pb.h"
#include "tessera/tensor.h"

namespace tessera::io {

// Serialises a ModelProto so that the data of large initializers begin at multiples of 64 bytes. The padding is a
// doc_string of spaces in the tensor, put before its raw_data: the order of fields is free in protobuf's encoding.
class AlignedModel {
 public:
  // For Exporter: keeps the data of large tensors out of the message; pieces() borrows them.
  void store(const Tensor& tensor, tessera_onnx::TensorProto& proto);
  // Must be called once, with the message that contains those tensors. Throws Error(over_budget) for 2 GiB or more.
  void encode(tessera_onnx::ModelProto model);
  // The encoded model in pieces, in order.
  const std::vector<std::span<const std::byte>>& pieces() const { return pieces_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  struct Initializer {
    std::string message;              // without the data kept out
    std::span<const std::byte> data;  // those, if any
    std::int64_t padding = 0;         // spaces before them
    std::int64_t bytes() const;
  };

  std::vector<Initializer> take_initializers(tessera_onnx::GraphProto& graph);
  void put(std::string bytes);
  void put(const Initializer& initializer);

  std::map<tessera_onnx::TensorProto*, std::span<const std::byte>> kept_out_;
  std::deque<std::string> texts_;
  std::vector<std::span<const std::byte>> pieces_;
  std::int64_t bytes_ = 0;
};

}  // namespace tessera::io
