// The contents of a model file as written: functions are not inlined; operators keep their version, attributes and
// order; nothing is inferred. For people who look into a file; reader.h reads models to be run. Files are untrusted
// here too, and the same limits apply.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "ir/type.h"
#include "tessera/model_limits.h"

namespace tessera::io {

struct OutlineGraph;
using OutlineGraphPointer = std::shared_ptr<const OutlineGraph>;

// In a function: the value is that attribute of the calling node.
struct OutlineReference {
  std::string attribute;
};

struct OutlineAttribute {
  std::string name;
  // Nothing (monostate): a kind that Tessera does not read.
  std::variant<std::monostate, std::int64_t, float, std::string, Tensor, ir::ValueType, std::vector<std::int64_t>,
               std::vector<float>, std::vector<std::string>, std::vector<Tensor>, std::vector<OutlineGraphPointer>,
               OutlineReference>
      value;
};

struct OutlineNode {
  std::string op;    // "Conv", "com.microsoft::FusedConv"
  std::string name;  // may be empty, and need not be unique
  std::string doc_string;
  std::vector<std::string> inputs, outputs;  // "" where there is none
  std::vector<OutlineAttribute> attributes;
};

struct OutlineValue {
  std::string name;
  ir::ValueType type;  // as declared
};

struct OutlineWeight {
  std::string name;
  Tensor tensor;  // sparse ones are dense here
};

struct OutlineGraph {
  std::string name, doc_string;
  std::vector<OutlineValue> inputs, outputs, values;  // `values`: those between, as far as the file declares them
  std::vector<OutlineWeight> weights;                 // initializers
  std::vector<OutlineNode> nodes;
};

struct OutlineFunction {
  std::string name;  // "domain::Name"
  std::vector<std::string> inputs, outputs, attributes;
  OutlineGraph body;
};

struct Outline {
  OutlineGraph graph;
  std::vector<OutlineFunction> functions;
};

// Reads the outline of an .onnx file, or of the graph in a package. Weights view the mapped file where they can. Throws
// the Errors of reader.h and package.h.
Outline read_outline(const std::filesystem::path& path, const ModelLimits& limits = {});

}  // namespace tessera::io
