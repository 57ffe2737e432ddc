// Converts TensorProto and SparseTensorProto to tensors.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "io/onnx/mapped_file.h"
#include "ir/type.h"
#include "onnx.pb.h"
#include "tessera/tensor.h"

namespace tessera::io {

using base::shown;

// Throws Error(invalid_model) for 0, Error(unsupported) for the number of an unknown element type.
DType to_dtype(std::int32_t onnx_type);
// The type of a map's keys; throws as to_dtype does, and Error(unsupported) for other keys than i64 and string.
DType to_key_type(std::int32_t onnx_type);
// Throws Error(invalid_model) for a negative dimension, Error(unsupported) for more than 64 of them.
Shape to_shape(const google::protobuf::RepeatedField<std::int64_t>& dims);

// The location of external data that lie in a package, beside the graph.
inline constexpr std::string_view kPackageConstants = "#constants";

class TensorReader {
 public:
  // `folder`: where external data may lie; nothing: external data is refused.
  // `owner` keeps the bytes given to read() alive; null: they are copied.
  // `max_dense_bytes`: of all sparse tensors that read_sparse makes dense.
  TensorReader(std::optional<std::filesystem::path> folder, std::shared_ptr<const void> owner,
               std::int64_t max_dense_bytes)
      : folder_(std::move(folder)), owner_(std::move(owner)), dense_bytes_left_(max_dense_bytes) {}

  // External data lie in `constants`, under the location kPackageConstants, and nowhere else; `owner` must keep them
  // alive too.
  void read_external_from(std::span<const std::byte> constants) { constants_ = constants; }

  // `raw` replaces the message's raw_data (cut out by split_model). The amount of data must be that of shape and type.
  // Throws Error(invalid_model) otherwise; external data also throws what InputFile::open_below does. The tensor views
  // `raw` or the mapped external file where that is aligned for its type; large data that are not are deferred copies,
  // equal ones the same.
  Tensor read(const tessera_onnx::TensorProto& proto, std::optional<std::span<const std::byte>> raw = std::nullopt);

  // The dense equivalent; Error(over_budget) when that is more than is left of max_dense_bytes.
  Tensor read_sparse(const tessera_onnx::SparseTensorProto& proto);

 private:
  Tensor from_bytes(DType dtype, Shape shape, std::span<const std::byte> bytes,
                    const std::shared_ptr<const void>& owner);
  Tensor deferred_copy(DType dtype, Shape shape, std::span<const std::byte> bytes,
                       const std::shared_ptr<const void>& owner);
  Tensor from_external(const tessera_onnx::TensorProto& proto, DType dtype, Shape shape);
  struct External {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
  };
  External open_external(const std::string& location);

  std::optional<std::filesystem::path> folder_;
  std::shared_ptr<const void> owner_;
  std::optional<std::span<const std::byte>> constants_;
  std::int64_t dense_bytes_left_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
  // Bytes, and the deferred copies of them, by a hash of both ends.
  std::unordered_multimap<std::size_t, std::pair<std::span<const std::byte>, Tensor>> copies_;
};

}  // namespace tessera::io
