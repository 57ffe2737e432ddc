// Calls of an operator's example (op_examples.h) in element types that are chosen one parameter at a time.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ops/core/op.h"
#include "support/op_examples.h"
#include "support/run_op.h"

namespace tessera::test {

inline constexpr auto kTypes = [] {
  std::array<DType, kDTypeCount - 1> types{};
  for (int i = 1; i < kDTypeCount; ++i) types[static_cast<std::size_t>(i) - 1] = static_cast<DType>(i);
  return types;
}();

// The types of a set, in the order of kTypes.
std::vector<DType> listed(ops::TypeSet set);

// Parameters of an example that have the same type: those of one type variable, and those that the example ties
// together.
struct TypeGroup {
  ops::TypeSet types = ops::types::all;
  std::set<std::string_view> parameters;
};

// Element types by group.
using ChosenTypes = std::map<std::string_view, DType>;

// Both arguments outlive it.
class TypedExample {
 public:
  TypedExample(const ops::OpDef& op, const OpExample& example);

  const std::map<std::string_view, TypeGroup>& groups() const { return groups_; }
  const ops::Parameter& parameter_at(std::size_t i) const { return op_.inputs[std::min(i, op_.inputs.size() - 1)]; }

  // The call with these groups in these types, and every other in the first of f32, i64 and those that it allows.
  OpCall call(const ChosenTypes& chosen) const;

 private:
  std::string_view key_of(const ops::Parameter& parameter) const;
  void add(const ops::Parameter& parameter);

  const ops::OpDef& op_;
  const OpExample& example_;
  std::map<std::string_view, TypeGroup> groups_;
};

// The element type of a tensor, or of what a sequence or map holds; undefined where that is not to be seen.
DType element_type(const Value& value);
// The operator, its operands' types and shapes, and its whole-number attributes, for messages.
std::string title(const OpCall& call);
// Equal but for some roundings: kernels for the CPU sum in another order, and compute in float32 what the reference
// computes in float64.
testing::AssertionResult agree(const Value& actual, const Value& expected);

}  // namespace tessera::test
