// Features of the newest forms of operators that older opsets lack, from the operator schemas of the onnx package.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ir/type.h"
#include "ops/core/op.h"

namespace tessera::io {

// A feature that versions of the operator's domain before `version` lack: exactly one of the fields below is set.
struct HistoryEntry {
  std::string_view op;  // as ir::Node::op
  std::int64_t version = 1;
  bool whole = false;                                      // the operator itself
  std::string_view attribute = {};                         // an attribute
  int input = -1;                                          // a formal input
  int absent_input = -1;                                   // that this input may be left out
  int output = -1;                                         // a formal output
  std::uint32_t inputs = 0, outputs = 0;                   // bit i: formal input or output i takes
  ops::TypeSet types = {};                                 // these element types
  ir::ValueType::Kind kind = ir::ValueType::Kind::tensor;  // of tensors, or of tensors in this kind of value
  bool gone = false;                                       // the reverse: versions from this one on lack it
};

// The entries of an operator; none for operators that are the same in all versions, and for those unknown to ONNX.
std::span<const HistoryEntry> history_of(std::string_view op);

}  // namespace tessera::io
