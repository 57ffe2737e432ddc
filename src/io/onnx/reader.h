// Reads ONNX models (IR versions 1-13, operator sets up to those of onnx 1.22) and the value files of ONNX test data.
//
// A file is hostile until checked: sizes, depths and counts are capped, data must have exactly the length of its type
// and shape, external data must lie in the model's folder. Every fault throws tessera::Error: not_found (missing file),
// io (unreadable), invalid_model (truncated, corrupt, or against the rules of ONNX), unsupported (one error that lists
// every operator and feature that is missing, with operator set version and node names), over_budget (a cap was
// reached).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "tessera/model_limits.h"

namespace tessera::io {

struct ReadOptions {
  bool infer = true;  // check every node and infer all types (ops::infer_graph)
  bool require_supported =
      true;  // false: operators that Tessera lacks stay in the graph; implies no inference if there are any
  ModelLimits limits = {};
  bool declared_shapes_are_true = false;  // true: the writer was Tessera; what inference contradicts is an error
  // Receives the declared type of each output of the graph, in order: names of dimensions for people to read. An entry
  // says nothing where the declaration is missing or false.
  std::vector<ir::ValueType>* declared_outputs = nullptr;
  // Values that replace the graph's initializers of these names; unknown names are ignored. They must have the element
  // type and shape that the file declares.
  std::map<std::string, Tensor> initializers = {};
};

// The canonical graph: operators in their newest form, functions inlined, Constant nodes as constants, initializers as
// constants that view the mapped file where aligned (variables where the file says so, see writer.h). Graph inputs that
// have an initializer are constants, not inputs; since IR version 4 callers may override them (ir/overridable.h),
// unless an operator of an old form was read with their value. metadata holds "producer_name", "producer_version",
// "domain", "model_version", "doc_string", "graph_doc_string", "ir_version", "opset:DOMAIN" and the file's own
// properties as "property:KEY"; what has no bearing on inference is left out and counted as "ignored:FIELD"
// (training_info, quantization_annotation …).
ir::Graph read_model(const std::filesystem::path& path, const ReadOptions& options = {});

// Reads a model from memory. `owner` keeps the bytes alive as long as weights view them; without an owner, weights are
// copied. External data may lie in `folder`; without a folder, external data is refused.
ir::Graph read_model_bytes(std::span<const std::byte> bytes, const ReadOptions& options = {},
                           std::shared_ptr<const void> owner = nullptr,
                           const std::optional<std::filesystem::path>& folder = std::nullopt);

// Reads the graph of a package (io/package.h), whose external data all lie in `constants`. `owner` keeps the bytes of
// both alive.
ir::Graph read_package_graph(std::span<const std::byte> bytes, std::span<const std::byte> constants,
                             std::shared_ptr<const void> owner, const ReadOptions& options = {});

// Reads a serialised TensorProto. The tensor owns its data.
Tensor read_tensor_proto(std::span<const std::byte> bytes);

// Reads a file of ONNX test data with a TensorProto, SequenceProto, OptionalProto or MapProto, according to `type`.
Value read_value_proto(const std::filesystem::path& path, const ir::ValueType& type);
Value read_value_proto(std::span<const std::byte> bytes, const ir::ValueType& type);

}  // namespace tessera::io
