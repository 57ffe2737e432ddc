// Convolutions by a dictionary: lookups beside the two convolutions that they stand for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "backends/cpu/convolutions/lookup_strip_f32.h"
#include "backends/cpu/convolutions/response_planes.h"
#include "ops/core/builder.h"
#include "support/against_reference.h"
#include "support/random_tensor.h"
#include "tessera/session.h"

namespace tessera::test::dictionary_conv_f32_test {
namespace {

const std::string kConv = "tessera::DictionaryConv";

struct Sizes {
  Shape x;  // [N, C, spatial...]
  std::int64_t vectors, outputs, terms;
  Shape kernel;
  std::vector<std::int64_t> strides = {}, dilations = {}, pads = {};
};

Shape join(Shape first, const Shape& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

// With coefficients of which a third is zero.
OpCall call_of(const Sizes& sizes) {
  const Shape shape = join({sizes.outputs, sizes.terms}, sizes.kernel);
  Tensor coefficients = random_tensor(DType::f32, shape, 3, -1, 1);
  std::mt19937 generator(5);
  for (float& value : coefficients.mutable_values<float>())
    if (generator() % 3 == 0) value = 0;
  OpCall call{
      kConv,
      {random_tensor(DType::f32, sizes.x, 1, -1, 1), random_tensor(DType::f32, {sizes.vectors, sizes.x[1]}, 2, -1, 1),
       random_tensor(DType::i64, shape, 4, 0, static_cast<double>(sizes.vectors - 1)), coefficients,
       random_tensor(DType::f32, {sizes.outputs}, 6, -1, 1)}};
  if (!sizes.strides.empty()) call.attributes["strides"] = sizes.strides;
  if (!sizes.dilations.empty()) call.attributes["dilations"] = sizes.dilations;
  if (!sizes.pads.empty()) call.attributes["pads"] = sizes.pads;
  return call;
}

const Sizes kCases[] = {
    {{1, 16, 7, 7}, 12, 20, 2, {3, 3}, {}, {}, {1, 1, 1, 1}},
    {{3, 5, 28, 29}, 9, 24, 2, {3, 3}, {}, {}, {1, 1, 1, 1}},
    {{1, 8, 14, 15}, 16, 33, 1, {3, 3}, {2, 2}, {}, {1, 1, 1, 1}},
    {{2, 4, 13, 31}, 10, 17, 1, {5, 2}, {3, 2}, {1, 2}, {0, 3, 2, 1}},
    {{1, 6, 9, 70}, 12, 19, 2, {2, 3}, {1, 1}, {3, 2}, {}},
    {{2, 7, 11}, 40, 18, 1, {4}, {2}, {3}, {4, 1}},
    {{1, 20, 4, 4}, 30, 50, 3, {4, 4}},
    {{1, 3, 65, 67}, 40, 16, 3, {1, 1}},
    {{1, 3, 6, 6}, 30, 16, 2, {1, 1}, {2, 3}},
    {{2, 3, 9, 80}, 30, 16, 1, {2, 9}, {}, {}, {0, 4, 1, 4}},  // too wide for a plane a column
    {{1, 4, 61}, 40, 18, 1, {11}, {2}, {2}, {3, 7}},
    {{2, 3, 5, 40}, 30, 16, 1, {1, 12}},
    {{9, 16, 40, 40}, 20, 16, 1, {3, 3}, {}, {}, {2, 2, 2, 2}},  // in groups of images
};

TEST(CpuDictionaryConv, MatchesTheReference) {
  for (const Sizes& sizes : kCases) {
    const OpCall call = call_of(sizes);
    EXPECT_EQ(chosen_cpu_kernel(call), "cpu_dictionary_conv_f32");
    expect_matches_reference(call, Tolerance::epsilons(DType::f32, 256));
  }
}

TEST(CpuDictionaryConv, AddsAndActivates) {
  for (const char* activation : {"Relu", "Tanh"}) {
    OpCall call = call_of(kCases[1]);
    call.inputs.emplace_back(random_tensor(DType::f32, {3, 24, 28, 29}, 8, -1, 1));
    call.attributes["activation"] = std::string(activation);
    EXPECT_EQ(chosen_cpu_kernel(call), "cpu_dictionary_conv_f32");
    expect_matches_reference(call, Tolerance::epsilons(DType::f32, 256));
    call.inputs[4] = Value();  // no bias
    expect_matches_reference(call, Tolerance::epsilons(DType::f32, 256));
  }
}

// Where no coefficient is zero: what is not looked up is not multiplied by zero.
TEST(CpuDictionaryConv, KeepsNan) {
  OpCall call = call_of(kCases[0]);
  call.attributes["activation"] = std::string("Relu");
  Tensor coefficients = call.inputs[3].tensor().clone();
  for (float& value : coefficients.mutable_values<float>())
    if (value == 0) value = 1;
  call.inputs[3] = coefficients;
  Tensor x = call.inputs[0].tensor().clone();
  x.mutable_data<float>()[100] = std::numeric_limits<float>::quiet_NaN();
  call.inputs[0] = x;
  expect_matches_reference(call, Tolerance::epsilons(DType::f32, 256));
}

// The kernels that a session runs for the call and a Relu behind it.
std::vector<std::string> kernels_of_a_session(const OpCall& call) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const Tensor& x = call.inputs[0].tensor();
  std::vector<ir::ValueId> inputs{graph.add_input("x", ir::ValueType::tensor(DType::f32, x.shape()))};
  for (std::size_t i = 1; i < call.inputs.size(); ++i) inputs.push_back(graph.add_constant(call.inputs[i].tensor()));
  graph.add_output(builder.add("Relu", {builder.add(call.op, inputs, call.attributes)}));
  Session session(Model(std::make_shared<const ir::Graph>(std::move(graph))));
  std::vector<StepTiming> timings;
  RunOptions options;
  options.timings = &timings;
  session.run({{"x", x}}, options);
  std::vector<std::string> kernels;
  for (const StepTiming& timing : timings) kernels.push_back(timing.kernel);
  return kernels;
}

TEST(CpuDictionaryConv, TakesTheActivationBehindIt) {
  EXPECT_EQ(kernels_of_a_session(call_of(kCases[0])), std::vector<std::string>{"cpu_dictionary_conv_f32"});
}

// Dense products take less time than lookups for each of many terms.
TEST(CpuDictionaryConv, IsAvoidedWhereLookupsAreTooMany) {
  const OpCall call = call_of({{1, 16, 28, 28}, 8, 32, 12, {3, 3}, {}, {}, {}});
  EXPECT_THAT(kernels_of_a_session(call), testing::Not(testing::Contains("cpu_dictionary_conv_f32")));
  EXPECT_EQ(accepting_cpu_kernels(call), std::vector<std::string>{"cpu_dictionary_conv_f32"});
}

TEST(ResponsePlanes, HaveAPlaneForEachColumnOfTheKernel) {
  // Four positions with one of padding before them; windows of 3 at every second one: 0 1 2, 2 3 4 of the padded.
  const backends::cpu::ResponsePlanes planes(
      {{.input = 4, .output = 2, .kernel = 3, .stride = 2, .dilation = 1, .pad_begin = 1, .pad_end = 0}}, 2);
  EXPECT_FALSE(planes.are_plain());
  EXPECT_EQ(planes.pitch(), 2);
  EXPECT_EQ(planes.elements(), 6);
  const float responses[] = {1, 2, 3, 4};
  std::vector<float> laid(6);
  planes.fill(responses, laid.data(), backends::cpu::lookup_functions().copy_rows);
  EXPECT_EQ(laid, (std::vector<float>{0, 2, 1, 3, 2, 4}));
  for (const std::int64_t tap : {0, 1, 2}) EXPECT_EQ(planes.line_of(tap), 2 * tap);
}

TEST(ResponsePlanes, TakeNoMoreMemoryForWideKernels) {
  const ops::WindowAxis narrow{.input = 16000, .output = 16000, .kernel = 8, .pad_begin = 3, .pad_end = 4};
  const ops::WindowAxis wide{.input = 16000, .output = 16000, .kernel = 31, .pad_begin = 15, .pad_end = 15};
  EXPECT_EQ(backends::cpu::ResponsePlanes({narrow}, 16).elements(), 8 * 16000);
  EXPECT_EQ(backends::cpu::ResponsePlanes({wide}, 16).elements(), 16030);
}

TEST(ResponsePlanes, BeginRowsAtWholeVectors) {
  // Three rows of three, padded all around, and windows of 3 x 3: five rows, of which each column has its own.
  const ops::WindowAxis axis{.input = 3, .output = 3, .kernel = 3, .pad_begin = 1, .pad_end = 1};
  for (const int lanes : {1, 4, 8, 16}) {
    const backends::cpu::ResponsePlanes planes({axis, axis}, lanes);
    const std::int64_t pitch = planes.pitch();
    EXPECT_EQ(pitch, lanes == 1 ? 3 : std::max(4, lanes / 2));
    const float responses[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    std::vector<float> laid(static_cast<std::size_t>(planes.elements()), -1);
    planes.fill(responses, laid.data(), backends::cpu::lookup_functions().copy_rows);
    for (std::int64_t tap = 0; tap < 9; ++tap) {
      for (std::int64_t at = 0; at < 9; ++at) {
        const std::int64_t y = at / 3 + tap / 3 - 1, x = at % 3 + tap % 3 - 1;
        const bool inside = y >= 0 && y < 3 && x >= 0 && x < 3;
        EXPECT_EQ(laid[static_cast<std::size_t>(planes.line_of(tap) + at / 3 * pitch + at % 3)],
                  inside ? responses[y * 3 + x] : 0.0f);
      }
    }
  }
}

}  // namespace
}  // namespace tessera::test::dictionary_conv_f32_test
