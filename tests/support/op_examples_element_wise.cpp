// Element-wise operators: functions, arithmetic, comparison, casts.
#include "support/op_examples.h"

namespace tessera::test {
namespace {

constexpr const char* kFunctions[] = {"Abs",
                                      "Acos",
                                      "Acosh",
                                      "Asin",
                                      "Asinh",
                                      "Atan",
                                      "Atanh",
                                      "BitwiseNot",
                                      "Ceil",
                                      "Cos",
                                      "Cosh",
                                      "Erf",
                                      "Exp",
                                      "Floor",
                                      "IsInf",
                                      "IsNaN",
                                      "Log",
                                      "Not",
                                      "Neg",
                                      "Reciprocal",
                                      "Round",
                                      "Sign",
                                      "Sin",
                                      "Sinh",
                                      "Sqrt",
                                      "Tan",
                                      "Celu",
                                      "Elu",
                                      "HardSigmoid",
                                      "HardSwish",
                                      "LeakyRelu",
                                      "Mish",
                                      "Relu",
                                      "Selu",
                                      "Shrink",
                                      "Sigmoid",
                                      "Softplus",
                                      "Softsign",
                                      "Swish",
                                      "Tanh",
                                      "ThresholdedRelu",
                                      "Gelu",
                                      "Identity"};
constexpr const char* kPairs[] = {"Add",         "Sub",        "Mul",   "Pow",     "PRelu",          "BitwiseAnd",
                                  "BitwiseOr",   "BitwiseXor", "Equal", "Greater", "GreaterOrEqual", "Less",
                                  "LessOrEqual", "And",        "Or",    "Xor"};
constexpr const char* kLists[] = {"Max", "Min", "Mean", "Sum"};

ir::Attributes to(DType type) {
  return {{"to", code_of(type)}};
}

}  // namespace

std::vector<OpExample> element_wise_examples() {
  std::vector<OpExample> examples;
  for (const char* op : kFunctions) examples.push_back({op, {at({2, 19})}});
  for (const char* op : kPairs) examples.push_back({op, {at({2, 19}), at({19}, {2, 1, 0.5, 3})}});
  for (const char* op : kLists) examples.push_back({op, {at({2, 3}), at({3}), at({2, 1}, {1, 2})}});
  const std::vector<OpExample> others{
      {"Gelu", {at({3})}, {{"approximate", text("tanh")}}},
      {"Clip", {at({2, 19}), number(0.5), number(2)}},
      {"Clip", {at({2, 3}), absent, number(2)}},
      {"Div", {at({2, 19}), at({19}, {2, 1, 3})}},
      {"Mod", {at({2, 3}), at({3}, {2, 1, 3})}, {{"fmod", whole(1)}}},
      {.op = "Mod",
       .operands = {at({2, 3}), at({3}, {2, 1, 3})},
       .refuses = {"A", ops::types::floats, "expected 1 for floats"}},
      {"BitShift", {at({2, 3}, {1, 2, 7}), at({3}, {1, 0, 3})}, {{"direction", text("LEFT")}}},
      {"BitShift", {at({2, 3}, {1, 2, 7}), at({3}, {1, 0, 3})}, {{"direction", text("RIGHT")}}},
      {"Where", {at({2, 3}, {1, 0}), at({2, 3}), at({3}, {2, 1, 3})}},
      {.op = "Cast", .operands = {at({2, 19}, {1, 2.5, 0, 0.5, 3})}, .attributes_follow = "output", .follow = to},
      {"CastLike", {at({2, 3}, {1, 2.5, 0, 0.5, 3}), at({1})}},
      {"Dropout", {at({2, 3}), number(0.5), as(DType::boolean, number(0))}, {}, 2},
      {"Dropout", {at({2, 3}), number(0.5), as(DType::boolean, number(1))}, {{"seed", whole(3)}}, 2},
      {"tessera::ElementWise",
       {as(DType::u8, at({2, 19}, {1, 2, 0, 200})), as(DType::f32, at({19}))},
       {{"steps", text_list({"DequantizeLinear", "Constant", "Mul", "Add", "Gelu", "QuantizeI8"})},
        {"operands", whole_list({0, -1, -1, -1, 2, 3, 4, 1, 5, -1, 6, -1})},
        {"parameters", real_list({0.5, 3, 2, 0, 0, 0, 0, 0, 0, 0, 0.25, -7})}}},
      {"tessera::ElementWise",
       {as(DType::i8, at({2, 19}, {1, 2, 0, -100}))},
       {{"steps", text_list({"DequantizeLinear", "QuantizeU8"})},
        {"operands", whole_list({0, -1, 1, -1})},
        {"parameters", real_list({0.5, 3, 0.25, 100})}}},
      {"tessera::ElementWise",
       {as(DType::f32, at({2, 19}))},
       {{"steps", text_list({"Neg", "Clip"})},
        {"operands", whole_list({0, -1, 1, -1})},
        {"parameters", real_list({0, 0, -1, 2})}}},
      {"tessera::ElementWise",
       {as(DType::boolean, at({2, 19}, {0, 1})), as(DType::i32, at({2, 19}, {1, 2, 0, 7})),
        as(DType::i64, at({19}, {1, 2, 0, 7})), as(DType::f32, at({19}))},
       {{"steps", text_list({"ToReal", "ToReal", "LessOrEqual", "And", "Where", "IsNaN", "Not"})},
        {"operands", whole_list({1, -1, -1, 2, -1, -1, 4, 5, -1, 0, 6, -1, 7, 3, 4, 8, -1, -1, 9, -1, -1})},
        {"parameters", real_list({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})}}},
      {.op = "BitCast",
       .operands = {at({2, 8})},
       .together = {"input", "output"},
       .attributes_follow = "output",
       .follow = to},
  };
  examples.insert(examples.end(), others.begin(), others.end());
  return examples;
}

}  // namespace tessera::test
