// What operators state of themselves (ops::Trait, ops::ElementWise) holds for every example of support/op_examples.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "backends/host/numeric.h"
#include "ops/op_table.h"
#include "support/op_examples.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::test::traits_test {
namespace {

using backends::host::read;
using ops::ElementWise;
using ops::OpDef;
using ops::Trait;

// The type that the examples' open operands have here: float32 where the operator takes it.
DType type_for(ops::TypeSet types) {
  for (const DType type : {DType::f32, DType::boolean, DType::i32, DType::u32, DType::i64}) {
    if (types.contains(type)) return type;
  }
  return DType::undefined;
}

// The example as a call; nothing where its types depend on more than this test chooses.
std::optional<OpCall> call_of(const OpDef& op, const OpExample& example) {
  if (!example.attributes_follow.empty() || !example.refuses.parameter.empty()) return std::nullopt;
  OpCall call{std::string(op.name), {}, example.attributes, example.outputs};
  for (std::size_t i = 0; i < example.operands.size(); ++i) {
    const ops::Parameter& parameter = op.inputs[std::min(i, op.inputs.size() - 1)];
    const DType type = type_for(parameter.types);
    if (type == DType::undefined && example.operands[i].dtype == DType::undefined) return std::nullopt;
    for (const auto& [name, types] : example.only) {
      if (name == parameter.name && !types.contains(type)) return std::nullopt;
    }
    call.inputs.push_back(make_value(example.operands[i], type));
    if (example.operands[i].kind == Value::Kind::sequence || example.operands[i].kind == Value::Kind::map)
      return std::nullopt;
  }
  return call;
}

Tensor result_of(const OpCall& call) {
  return run_op(call)[0].tensor();
}
OpCall with_input(OpCall call, std::size_t i, Value value) {
  call.inputs[i] = std::move(value);
  return call;
}

Tensor backwards(const Tensor& x) {
  const std::size_t rank = x.shape().size();
  const std::vector<std::int64_t> last(rank, -1), end(rank, std::numeric_limits<std::int64_t>::min());
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < rank; ++i) axes.push_back(static_cast<std::int64_t>(i));
  const auto list = [](const std::vector<std::int64_t>& values) {
    return Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())},
                                      std::span<const std::int64_t>(values));
  };
  return run_op_tensor({"Slice", {x, list(last), list(end), list(axes), list(last)}});
}

Tensor expanded(const Tensor& x, const Shape& shape) {
  const std::span<const std::int64_t> sizes(shape);
  return run_op_tensor({"Expand", {x, Tensor::from<std::int64_t>({static_cast<std::int64_t>(shape.size())}, sizes)}});
}

// With its operands backwards, the operator gives its result backwards.
void check_element_wise(const OpDef& op, const OpCall& call) {
  const Tensor result = result_of(call);
  OpCall turned = call;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.inputs[i].is_tensor()) continue;
    const bool is_alone = op.element_wise == ElementWise::unary || op.element_wise == ElementWise::along_axis;
    if (is_alone && i > 0) {
      EXPECT_TRUE(op.element_wise == ElementWise::along_axis || call.inputs[i].tensor().elements() == 1);
      if (call.inputs[i].tensor().elements() != 1) return;
      continue;
    }
    turned.inputs[i] = backwards(expanded(call.inputs[i].tensor(), result.shape()));
  }
  if (op.element_wise != ElementWise::broadcasting) {
    EXPECT_EQ(result.shape(), call.inputs[0].tensor().shape());
  }
  EXPECT_TRUE(close_to(result_of(turned), backwards(result)));
}

// All elements of the result are elements of the operands of its type (or, where several may give them, zeros).
void check_movement(const OpDef& op, const OpCall& call) {
  const auto reduction = call.attributes.find("reduction");
  if (reduction != call.attributes.end() && std::get<std::string>(reduction->second) != "none") return;
  const Tensor result = result_of(call);
  const bool only_first = op.has(Trait::rearranges);
  std::set<double> given;
  if (!only_first) given.insert(0);
  for (std::size_t i = 0; i < (only_first ? 1 : call.inputs.size()); ++i) {
    if (!call.inputs[i].is_tensor() || call.inputs[i].tensor().dtype() != result.dtype()) continue;
    const std::vector<double> values = read<double>(call.inputs[i].tensor());
    given.insert(values.begin(), values.end());
  }
  for (const double element : read<double>(result)) EXPECT_TRUE(given.contains(element)) << element;
}

void check_reduction(const OpDef& op, const OpCall&) {
  const Tensor x = make_value(at({2, 3, 4}), DType::f32).tensor();
  const auto reduced = [&](const Tensor& data, std::vector<std::int64_t> axes) {
    const Shape count{static_cast<std::int64_t>(axes.size())};
    return run_op_tensor({std::string(op.name),
                          {data, Tensor::from<std::int64_t>(count, std::span<const std::int64_t>(axes))},
                          {{"keepdims", std::int64_t{1}}, {"noop_with_empty_axes", std::int64_t{1}}}});
  };
  EXPECT_EQ(reduced(x, {1}).shape(), (Shape{2, 1, 4}));
  if (op.has(Trait::nests)) {
    EXPECT_TRUE(close_to(reduced(reduced(x, {1}), {2}), reduced(x, {1, 2}), Tolerance::epsilons(DType::f32, 8)));
  }
}

void check_value(const OpDef& op, const OpCall& call) {
  const Tensor result = result_of(call);
  if (op.has(Trait::idempotent)) {
    EXPECT_TRUE(close_to(result_of(with_input(call, 0, result)), result));
  }
  if (op.has(Trait::own_inverse)) {
    EXPECT_TRUE(close_to(result_of(with_input(call, 0, result)), call.inputs[0].tensor()));
  }
  if (op.has(Trait::non_negative)) {
    for (const double element : read<double>(result)) EXPECT_FALSE(element < 0);
  }
  if (op.has(Trait::homogeneous)) {
    const Tensor two = make_value(number(2), call.inputs[0].tensor().dtype()).tensor();
    const auto doubled = [&](const Tensor& x) { return run_op_tensor({"Mul", {x, two}}); };
    EXPECT_TRUE(close_to(result_of(with_input(call, 0, doubled(call.inputs[0].tensor()))), doubled(result)));
  }
}

void check_operands(const OpDef& op, const OpCall& call) {
  if (op.has(Trait::commutative)) {
    OpCall swapped = call;
    ASSERT_EQ(call.inputs.size(), 2u);
    std::swap(swapped.inputs[0], swapped.inputs[1]);
    EXPECT_TRUE(close_to(result_of(swapped), result_of(call)));
  }
  if (op.has(Trait::keeps_one_operand)) {
    OpCall single = call;
    single.inputs.resize(1);
    EXPECT_TRUE(close_to(result_of(single), call.inputs[0].tensor()));
  }
  if (op.has(Trait::reads_shapes)) {
    const Tensor& x = call.inputs[0].tensor();
    EXPECT_TRUE(close_to(result_of(with_input(call, 0, Tensor(x.dtype(), x.shape()))), result_of(call)));
  }
}

constexpr Trait kChecked[] = {Trait::commutative, Trait::moves,        Trait::rearranges,       Trait::reduction,
                              Trait::nests,       Trait::idempotent,   Trait::own_inverse,      Trait::non_negative,
                              Trait::homogeneous, Trait::reads_shapes, Trait::keeps_one_operand};

bool states_something(const OpDef& op) {
  return op.element_wise != ElementWise::no ||
         std::ranges::any_of(kChecked, [&](Trait trait) { return op.has(trait); });
}

// The checks of an operator's examples; how often each of its traits was checked.
void check(const OpDef& op, const OpCall& call, std::map<Trait, int>& checked) {
  SCOPED_TRACE(op.name);
  if (op.element_wise != ElementWise::no) check_element_wise(op, call);
  if (op.has(Trait::moves)) check_movement(op, call);
  if (op.has(Trait::reduction)) check_reduction(op, call);
  check_value(op, call);
  check_operands(op, call);
  for (const Trait trait : kChecked) checked[trait] += op.has(trait) ? 1 : 0;
}

TEST(Traits, HoldForEveryExample) {
  std::map<Trait, int> checked;
  std::set<std::string_view> seen;
  for (const OpExample& example : op_examples()) {
    const OpDef* op = ops::find_op(example.op);
    ASSERT_NE(op, nullptr) << example.op;
    if (!states_something(*op)) continue;
    if (const std::optional<OpCall> call = call_of(*op, example)) {
      check(*op, *call, checked);
      seen.insert(op->name);
    }
  }
  for (const auto& [trait, count] : checked) EXPECT_GT(count, 0) << static_cast<int>(trait);
  for (const OpDef* op : ops::all_ops()) {
    // The type that these two give is an attribute, which this test does not choose.
    if (op->element_wise != ElementWise::no && op->name != "Cast" && op->name != "BitCast") {
      EXPECT_TRUE(seen.contains(op->name)) << op->name;
    }
  }
}

TEST(Traits, ImplyEachOther) {
  for (const OpDef* op : ops::all_ops()) {
    SCOPED_TRACE(op->name);
    if (op->view) {
      EXPECT_TRUE(op->has(Trait::rearranges));
    }
    if (op->has(Trait::rearranges)) {
      EXPECT_TRUE(op->has(Trait::moves));
    }
    if (op->has(Trait::nests)) {
      EXPECT_TRUE(op->has(Trait::reduction));
    }
    if (op->has(Trait::keeps_one_operand)) {
      EXPECT_EQ(op->inputs[0].option, ops::variadic);
    }
    if (op->has(Trait::commutative)) {
      EXPECT_EQ(op->inputs.size(), 2u);
    }
  }
}

}  // namespace
}  // namespace tessera::test::traits_test
