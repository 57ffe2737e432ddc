// Functions, arithmetic, products, movement and reductions.
#include "support/gradient_cases.h"

namespace tessera::test {

using namespace gradient_cases;

namespace {

// Lines without a zero, with one and with two.
Tensor with_zeros(const Shape& shape) {
  Tensor x = reals(shape, 3, 0.5, 2);
  const std::int64_t columns = shape.back();
  double* data = x.mutable_data<double>();
  data[columns + 2] = data[2 * columns + 1] = data[2 * columns + 3] = 0;
  return x;
}

// One element-wise function of x in (low, high).
Case unary(const std::string& op, double low = -2, double high = 2, ir::Attributes attributes = {}) {
  return {{op, {reals({3, 4}, 1, low, high)}, std::move(attributes)}};
}

}  // namespace

std::vector<GradientCase> unary_gradient_cases() {
  return {
      unary("Abs"),
      unary("Acos", -0.9, 0.9),
      unary("Acosh", 1.2, 3),
      unary("Asin", -0.9, 0.9),
      unary("Asinh"),
      unary("Atan"),
      unary("Atanh", -0.9, 0.9),
      unary("Ceil"),
      unary("Cos"),
      unary("Cosh"),
      unary("Erf"),
      unary("Exp"),
      unary("Floor"),
      unary("Log", 0.5, 3),
      unary("Neg"),
      unary("Reciprocal", 0.5, 3),
      unary("Round"),
      unary("Sign"),
      unary("Sin"),
      unary("Sinh"),
      unary("Sqrt", 0.5, 3),
      unary("Tan", -1, 1),
      unary("Relu"),
      unary("Sigmoid"),
      unary("Tanh"),
      unary("Elu", -2, 2, {{"alpha", 0.7f}}),
      unary("HardSigmoid", -4, 4),
      unary("HardSwish", -5, 5),
      unary("LeakyRelu", -2, 2, {{"alpha", 0.3f}}),
      unary("Mish"),
      unary("Selu"),
      unary("Shrink", -2, 2, {{"bias", 0.2f}, {"lambd", 0.8f}}),
      unary("Softplus"),
      unary("Softsign"),
      unary("Swish", -2, 2, {{"alpha", 1.5f}}),
      unary("ThresholdedRelu", -2, 2, {{"alpha", 0.5f}}),
      unary("Gelu"),
      unary("Gelu", -2, 2, {{"approximate", std::string("tanh")}}),
      {{"Celu", {random_tensor(DType::f32, {3, 4}, 1, -2, 2)}, {{"alpha", 0.7f}}}, kSingle},
      {{"Clip", {reals({3, 4}), Tensor::scalar(-1.0), Tensor::scalar(0.5)}}},
      {{"Clip", {reals({3, 4}), Value(), Tensor::scalar(0.5)}}},
      {{"Clip", {reals({3, 4}), Tensor::from<double>({1}, {-0.5})}}},
      {{"Clip", {reals({3, 4}), Tensor::scalar(0.6), Tensor::scalar(-0.2)}}},
  };
}

std::vector<GradientCase> binary_gradient_cases() {
  std::vector<Case> cases;
  for (const std::string op : {"Add", "Sub", "Mul", "Div", "Max", "Min", "Mean", "Sum"}) {
    cases.push_back({{op, {reals({2, 3, 4}, 1, 0.5, 2), reals({3, 1}, 2, 0.5, 2)}}});
    cases.push_back({{op, {reals({4}, 1, 0.5, 2), reals({2, 1, 1}, 2, 0.5, 2)}}});
  }
  for (const std::string op : {"Max", "Min", "Mean", "Sum"})
    cases.push_back({{op, {reals({2, 3}, 1), reals({3}, 2), reals({2, 1}, 3)}}});
  cases.insert(cases.end(),
               {
                   {{"Pow", {reals({2, 3}, 1, 0.5, 2), reals({3}, 2, -2, 3)}}},
                   {{"Pow", {reals({2, 3}, 1, -2, 2), integers({2, 0, 3})}}},
                   {{"Pow", {reals({2}, 1, 0.5, 2), random_tensor(DType::f32, {2}, 3, 0.5, 2)}}, kStash},
                   {{"Mod", {reals({4, 3}, 1, -9, 9), reals({3}, 2, 1, 2)}, {{"fmod", std::int64_t{1}}}}},
                   {{"PRelu", {reals({2, 3, 2}), reals({3, 1}, 2)}}},
                   {{"Where", {Tensor::from<bool>({2, 1}, {true, false}), reals({3}, 1), reals({2, 3}, 2)}}},
               });
  return cases;
}

std::vector<GradientCase> product_gradient_cases() {
  std::vector<Case> cases;
  const std::pair<Shape, Shape> shapes[] = {{{2, 3}, {3, 4}}, {{3}, {3, 2}},       {{2, 3}, {3}},
                                            {{3}, {3}},       {{2, 2, 3}, {3, 2}}, {{2, 1, 2, 3}, {4, 3, 2}},
                                            {{2, 3, 4}, {4}}, {{4}, {2, 4, 3}}};
  for (const auto& [a, b] : shapes) cases.push_back({{"MatMul", {reals(a, 1), reals(b, 2)}}});
  for (const std::int64_t a : {0, 1}) {
    for (const std::int64_t b : {0, 1}) {
      const ir::Attributes attributes{{"alpha", 0.5f}, {"beta", 2.0f}, {"transA", a}, {"transB", b}};
      cases.push_back(
          {{"Gemm",
            {reals(a ? Shape{3, 2} : Shape{2, 3}, 1), reals(b ? Shape{4, 3} : Shape{3, 4}, 2), reals({4}, 3)},
            attributes}});
    }
  }
  cases.push_back({{"Gemm", {reals({2, 3}, 1), reals({3, 4}, 2)}}});
  cases.push_back({{"com.microsoft::Inverse", {reals({2, 3, 3}, 4)}}});
  return cases;
}

std::vector<GradientCase> movement_gradient_cases() {
  const Tensor x = reals({2, 3, 4});
  const Tensor regions = Tensor::from<double>({2, 4}, {0.5, 0.3, 4.1, 3.7, -1, 1.2, 3.3, 5.9});
  const ir::Attributes bins{{"output_height", std::int64_t{2}}, {"output_width", std::int64_t{3}}};
  ir::Attributes largest = bins;
  largest["mode"] = std::string("max");
  constexpr GradientCheck kRegions{.constants = 0b010};
  return {
      {{"Reshape", {x, integers({4, -1})}}},
      {{"Flatten", {x}, {{"axis", std::int64_t{2}}}}},
      {{"Squeeze", {reals({2, 1, 3, 1}), integers({1})}}},
      {{"Unsqueeze", {x, integers({0, -1})}}},
      {{"Transpose", {x}, {{"perm", Integers{2, 0, 1}}}}},
      {{"Transpose", {x}}},
      {{"Expand", {reals({3, 1}), integers({2, 1, 4})}}},
      {{"Tile", {reals({2, 3}), integers({3, 2})}}},
      {{"Identity", {x}}},
      {{"tessera::After", {x, x}}},
      {{"Dropout", {x, Tensor::scalar(0.5)}}},
      {{"Dropout", {x, Value(), Tensor::scalar(true)}, {{"seed", std::int64_t{3}}}}},
      {{"Cast", {x}, {{"to", static_cast<std::int64_t>(DType::f32)}}}, kStash},
      {{"CastLike", {x, Tensor::scalar(1.0f)}}, kStash},
      {{"Concat", {reals({2, 1, 3}, 1), reals({2, 2, 3}, 2), reals({2, 0, 3}, 3)}, {{"axis", std::int64_t{-2}}}}},
      {{"Concat", {x}, {{"axis", std::int64_t{0}}}}},
      {{"Split", {x}, {{"axis", std::int64_t{-1}}, {"num_outputs", std::int64_t{3}}}, 3}},
      {{"Split", {x, integers({1, 2})}, {{"axis", std::int64_t{1}}}, 2}},
      {{"Slice", {reals({6, 5}), integers({1, -1}), integers({5, -5}), integers({0, 1}), integers({2, -2})}}},
      {{"Slice", {x, integers({1, 1}), integers({2, 100})}}},
      {{"Gather", {x, integers({2, 0, 2})}, {{"axis", std::int64_t{1}}}}},
      {{"Gather", {x, indices({2, 2}, {1, -1, 0, 1})}, {{"axis", std::int64_t{0}}}}},
      {{"Gather", {x, Tensor::scalar(std::int32_t{-2})}, {{"axis", std::int64_t{-1}}}}},
      {{"GatherElements", {reals({3, 3}), indices({2, 3}, {0, 1, 2, 0, -1, 0})}, {{"axis", std::int64_t{0}}}}},
      {{"GatherND", {x, indices({3, 2}, {0, 1, 1, 2, 0, 1})}}},
      {{"GatherND", {reals({2, 3, 4}), indices({2, 2, 1}, {0, 2, 1, 1})}, {{"batch_dims", std::int64_t{1}}}}},
      {{"tessera::ScatterRows", {reals({4, 3}), integers({2, 0, 2, -1}), integers({5})}}},
      {{"tessera::ScatterRows",
        {reals({2, 2, 2, 3}), indices({2, 2}, {1, 0, 1, 1}), integers({3})},
        {{"axis", std::int64_t{1}}}}},
      {{"Compress", {x, Tensor::from<bool>({3}, {true, false, true})}, {{"axis", std::int64_t{1}}}}},
      {{"Compress", {reals({2, 3}), Tensor::from<bool>({4}, {false, true, true, false})}}},
      {{"AffineGrid", {reals({2, 2, 3}), integers({2, 1, 3, 2})}}},
      {{"AffineGrid", {reals({1, 3, 4}), integers({1, 2, 2, 3, 2})}, {{"align_corners", std::int64_t{1}}}}},
      {{"GridSample", {reals({2, 2, 3, 4}), reals({2, 2, 3, 2}, 2, -0.9, 0.9)}}},
      {{"GridSample",
        {reals({1, 2, 5, 4}), reals({1, 3, 2, 2}, 3, -1.9, 1.9)},
        {{"padding_mode", std::string("reflection")}, {"align_corners", std::int64_t{1}}}}},
      {{"GridSample",
        {reals({1, 1, 5, 5}), reals({1, 3, 2, 2}, 4, -1.6, 1.6)},
        {{"padding_mode", std::string("border")}, {"mode", std::string("cubic")}}}},
      {{"GridSample", {reals({1, 1, 5, 5}), reals({1, 3, 2, 2}, 5)}, {{"mode", std::string("nearest")}}}},
      {{"GridSample", {reals({1, 2, 3, 4, 3}), reals({1, 2, 1, 2, 3}, 6)}}},
      {{"RoiAlign", {reals({2, 2, 5, 6}), regions, integers({1, 0})}, bins}, kRegions},
      {{"RoiAlign", {reals({2, 2, 5, 6}, 3, 0.5, 2), regions, integers({0, 0})}, largest}, kRegions},
      {{"MaxRoiPool",
        {reals({2, 2, 5, 6}), Tensor::from<double>({3, 5}, {1, 0, 0, 8, 7, 0, 2, 2, 9, 9, 0, -5, -5, -3, -3})},
        {{"pooled_shape", Integers{2, 3}}, {"spatial_scale", 0.5f}}},
       kRegions},
      {{"Col2Im",
        {reals({2, 6, 12}), integers({5, 7}), integers({3, 2})},
        {{"strides", Integers{2, 1}}, {"dilations", Integers{1, 3}}, {"pads", Integers{1, 0, 0, 2}}}},
       kKnown},
      {{"Col2Im", {reals({1, 6, 4}), integers({6}), integers({3})}}, kKnown},
      {{"TensorScatter", {reals({2, 4, 3}), reals({2, 2, 3}, 2), integers({0, 2})}}},
      {{"TensorScatter", {reals({2, 3, 4}), reals({2, 3, 2}, 2)}, {{"axis", std::int64_t{-1}}}}},
      {{"TensorScatter",
        {reals({2, 5, 3}), reals({2, 3, 3}, 2), integers({4, 2})},
        {{"mode", std::string("circular")}}}},
      {{"DepthToSpace", {reals({1, 8, 2, 3})}, {{"blocksize", std::int64_t{2}}}}},
      {{"DepthToSpace", {reals({2, 8, 2, 1})}, {{"blocksize", std::int64_t{2}}, {"mode", std::string("CRD")}}}},
      {{"SpaceToDepth", {reals({1, 2, 4, 6})}, {{"blocksize", std::int64_t{2}}}}},
      {{"ReverseSequence", {reals({4, 2, 3}), integers({3, 1})}}},
      {{"TopK", {reals({3, 5}), integers({2})}, {}, 2}},
      {{"TopK", {reals({4, 3}), integers({3})}, {{"axis", std::int64_t{0}}, {"largest", std::int64_t{0}}}, 1}},
      {{"ScatterElements",
        {reals({3, 3}), indices({2, 2}, {0, 2, -1, 0}), reals({2, 2}, 2)},
        {{"axis", std::int64_t{1}}}}},
      {{"ScatterElements",
        {reals({3, 3}), indices({2, 1}, {0, 0}), reals({2, 1}, 2)},
        {{"reduction", std::string("add")}}}},
      {{"ScatterND", {x, indices({2, 2}, {0, 1, 1, 2}), reals({2, 4}, 2)}}},
      {{"ScatterND", {x, indices({2, 1}, {1, 1}), reals({2, 3, 4}, 2)}, {{"reduction", std::string("add")}}}},
      {{"Pad", {reals({2, 3}), integers({1, 0, 0, 2}), Tensor::scalar(0.5)}}},
      {{"Pad", {reals({4, 3}), integers({-1, 2}), Tensor::scalar(0.5), integers({0})}}},
      {{"Pad", {reals({4, 3}), integers({2, 1, 3, 0})}, {{"mode", std::string("reflect")}}}},
      {{"Pad", {reals({4, 3}), integers({1, 2}), Value(), integers({-1})}, {{"mode", std::string("edge")}}}},
      {{"Pad", {reals({2, 4, 3}), integers({0, 3, 0, 0, 2, 1})}, {{"mode", std::string("wrap")}}}},
      {{"CenterCropPad", {reals({5, 2, 4}), integers({2, 5})}, {{"axes", Integers{0, 1}}}}},
      {{"Trilu", {reals({2, 3, 4}), Tensor::scalar(std::int64_t{1})}, {{"upper", std::int64_t{0}}}}},
      {{"CumSum", {x, Tensor::scalar(std::int64_t{1})}, {{"exclusive", std::int64_t{1}}}}},
      {{"CumSum", {x, Tensor::scalar(std::int64_t{-1})}, {{"reverse", std::int64_t{1}}}}},
      {{"CumProd", {x, Tensor::scalar(std::int64_t{1})}, {{"exclusive", std::int64_t{1}}}}},
      {{"CumProd", {with_zeros({3, 5}), Tensor::scalar(std::int64_t{-1})}}},
      {{"CumProd", {with_zeros({3, 5}), Tensor::scalar(std::int64_t{1})}, {{"reverse", std::int64_t{1}}}}},
  };
}

std::vector<GradientCase> reduction_gradient_cases() {
  std::vector<Case> cases;
  for (const std::string op : {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
                               "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"}) {
    const Tensor x = reals({2, 3, 4}, 5, 0.5, 2);
    cases.push_back({{op, {x, integers({0, -1})}, {{"keepdims", std::int64_t{0}}}}});
    cases.push_back({{op, {x, integers({1})}}});
    cases.push_back({{op, {x}, {{"keepdims", std::int64_t{0}}}}});
    cases.push_back({{op, {x, integers({})}, {{"noop_with_empty_axes", std::int64_t{1}}}}});
  }
  cases.push_back({{"ReduceProd", {with_zeros({3, 5}), integers({1})}}});
  return cases;
}

std::vector<GradientCase> all_gradient_cases() {
  std::vector<GradientCase> all;
  for (const auto& cases :
       {unary_gradient_cases(), binary_gradient_cases(), product_gradient_cases(), movement_gradient_cases(),
        reduction_gradient_cases(), layer_gradient_cases(), einsum_gradient_cases(), resize_gradient_cases(),
        recurrent_gradient_cases(), attention_gradient_cases(), deformed_gradient_cases(), transform_gradient_cases(),
        stateful_gradient_cases()})
    all.insert(all.end(), cases.begin(), cases.end());
  return all;
}

}  // namespace tessera::test
