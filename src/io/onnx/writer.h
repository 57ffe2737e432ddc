// Writes graphs as ONNX models.
//
// Reading what was written gives an equal graph: names, types, attributes, constants (bitwise) and variables. Captured
// values of subgraphs become references by outer name; names that ONNX could confuse (empty, taken twice, shadowing)
// get a number.
//
// Variables are initializers that other readers take for constants; the model's properties tell ours what they are:
//   tessera.variable/INITIALIZER = name of the variable
//   tessera.update/VARIABLE      = name of the value that becomes the state at the end of a run
//
// Data of large constants begin at multiples of 64 bytes of the file, so that a reader can use them where they lie.
//
// The operator set version written is by default the one that the graph was read from, so that whoever loaded the model
// loads what is written; operators take the forms of that version (downgrade.h), and the IR version is the one of that
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tessera::io {

struct WriteOptions {
  // Constants of at least this many bytes go to a second file, MODEL.data beside the model, each at a multiple of 4096
  // bytes. Nothing: everything in one file, which must stay below 2 GiB.
  std::optional<std::int64_t> external_data_threshold = {};
  // The opset to write; see file_form.h. Nothing: the version that the graph was read from, or the lowest above it that
  // has the graph's operators.
  std::optional<std::int64_t> opset = {};
};

struct WrittenModel {
  std::int64_t opset = 0;
  std::vector<std::string> raised_by;  // operators and element types that the graph's own version does not have
  std::int64_t bytes = 0;              // of both files
};

// Writes to a temporary name and renames, so that a file of that name is either as before or complete. Throws
// Error(io), Error(over_budget) for a file of 2 GiB or more, Error(unsupported) for operators without a form at the
// version asked for, Error(invalid_argument) for a version that cannot be written.
WrittenModel write_model(const ir::Graph& graph, const std::filesystem::path& path, const WriteOptions& options = {});

// The model as one serialised message.
std::vector<std::byte> write_model_bytes(const ir::Graph& graph, std::optional<std::int64_t> opset = {});

// A value as a serialised TensorProto, SequenceProto or MapProto, or OptionalProto for no value; the files of ONNX test
// data.
std::vector<std::byte> write_value_proto(const Value& value, const std::string& name = "");

}  // namespace tessera::io
