// Indices that come as data and lie outside: nothing is read or written there.
#include <gtest/gtest.h>

#include <cmath>

#include "support/hostile_call.h"

namespace tessera::test::hostile_index_test {
namespace {

using Integers = std::vector<std::int64_t>;

Tensor floats(const Shape& shape) {
  Tensor tensor(DType::f32, shape);
  for (std::int64_t i = 0; i < tensor.elements(); ++i) tensor.mutable_data<float>()[i] = static_cast<float>(i);
  return tensor;
}
Tensor integers(const Shape& shape, const Integers& values) {
  return Tensor::from<std::int64_t>(shape, values);
}
Tensor narrow(const Shape& shape, const std::vector<std::int32_t>& values) {
  return Tensor::from<std::int32_t>(shape, values);
}

// The lowest and highest numbers, and the first ones outside of [-bound, bound).
Integers beyond(std::int64_t bound) {
  return {bound, -bound - 1, INT64_MAX, INT64_MIN, std::int64_t{1} << 32};
}

TEST(HostileIndex, GathersStayInside) {
  const Tensor data = floats({3, 4});
  for (const std::int64_t index : beyond(3)) {
    const std::string message = "index " + std::to_string(index) + " is outside [-3, 3)";
    expect_call_refused({"Gather", {data, integers({2}, {0, index})}}, message);
    expect_call_refused({"GatherElements", {data, integers({1, 2}, {0, index})}}, message);
    expect_call_refused({"GatherND", {data, integers({1, 2}, {index, 0})}}, message);
  }
  expect_call_refused({"Gather", {data, narrow({1}, {INT32_MIN})}}, "index -2147483648 is outside [-3, 3)");
  expect_call_refused({"GatherElements", {data, integers({1, 5}, {0, 0, 0, 0, 0})}},
                      "indices [1, 5] reach beyond data [3, 4] at axis 1");
  expect_call_refused({"Gather", {floats({0, 4}), integers({1}, {0})}}, "index 0 is outside [0, 0)");
  expect_call_refused({"ai.onnx.ml::ArrayFeatureExtractor", {data, integers({1, 1}, {4})}}, "outside");
}

TEST(HostileIndex, ScattersStayInside) {
  const Tensor data = floats({3, 4});
  for (const std::int64_t index : beyond(3)) {
    const std::string message = "index " + std::to_string(index) + " is outside [-3, 3)";
    expect_call_refused({"ScatterElements", {data, integers({1, 2}, {0, index}), floats({1, 2})}}, message);
    expect_call_refused({"ScatterND", {data, integers({1, 1}, {index}), floats({1, 4})}}, message);
  }
  expect_call_refused({"ScatterElements", {data, integers({1, 5}, {0, 0, 0, 0, 0}), floats({1, 5})}}, "outside");
  const Tensor cache = floats({1, 2, 3, 2}), update = floats({1, 2, 2, 2});
  for (const std::int64_t start : {std::int64_t{2}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    expect_call_refused({"TensorScatter", {cache, update, integers({1}, {start})}}, "write");
  }
}

TEST(HostileIndex, OneHotLeavesTheLineOff) {
  const Tensor off_on = Tensor::from<float>({2}, {0, 1});
  expect_call_gives({"OneHot", {integers({3}, {3, -4, INT64_MIN}), Tensor::scalar<std::int64_t>(3), off_on}},
                    Tensor::from<float>({3, 3}, {0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(HostileIndex, ClassesOfLossesStayInside) {
  const Tensor scores = floats({2, 3});
  for (const std::int64_t target : {std::int64_t{3}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    const std::string message = "label " + std::to_string(target) + " is outside [0, 3)";
    expect_call_refused({"NegativeLogLikelihoodLoss", {scores, integers({2}, {0, target})}}, message);
    expect_call_refused({"SoftmaxCrossEntropyLoss", {scores, integers({2}, {0, target})}}, message);
  }
}

TEST(HostileIndex, UnpoolingStaysInside) {
  const ir::Attributes kernel{{"kernel_shape", Integers{2}}, {"strides", Integers{2}}};
  for (const std::int64_t index : {std::int64_t{4}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    expect_call_refused({"MaxUnpool", {floats({1, 1, 2}), integers({1, 1, 2}, {0, index})}, kernel},
                        "index " + std::to_string(index) + " is outside [0, 4)");
  }
  const OpCall shrunk{"MaxUnpool", {floats({1, 1, 2}), integers({1, 1, 2}, {0, 3}), integers({3}, {1, 1, 3})}, kernel};
  expect_call_refused(shrunk, "does not hold [1, 1, 4]");
  const OpCall grown{
      "MaxUnpool", {floats({1, 1, 2}), integers({1, 1, 2}, {0, 3}), integers({3}, {1, 1, INT64_MAX})}, kernel};
  expect_call_refused(grown, "");
}

TEST(HostileIndex, ConditionsPickWhatThereIs) {
  expect_call_refused(
      {"Compress", {floats({2, 2}), Tensor::from<bool>({3}, {true, false, true})}, {{"axis", std::int64_t{0}}}},
      "there are only 2 entries");
  expect_call_refused({"Compress", {floats({2, 2}), Tensor::from<bool>({5}, {false, false, false, false, true})}},
                      "there are only 4 entries");
}

TEST(HostileIndex, LengthsOfSequencesStayInside) {
  const Tensor x = floats({4, 2});
  const ir::Attributes axes{{"time_axis", std::int64_t{0}}, {"batch_axis", std::int64_t{1}}};
  for (const std::int64_t length : {std::int64_t{5}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    expect_call_refused({"ReverseSequence", {x, integers({2}, {1, length})}, axes}, std::to_string(length));
  }
  expect_call_refused({"ReverseSequence", {x, integers({3}, {1, 1, 1})}, axes}, "");
  const Tensor w = floats({1, 3, 2}), r = floats({1, 3, 3});
  const Tensor sequence = floats({4, 1, 2});
  for (const std::int32_t length : {5, -1, INT32_MAX, INT32_MIN}) {
    const ir::Attributes hidden{{"hidden_size", std::int64_t{3}}};
    expect_call_refused({"RNN", {sequence, w, r, Value(), narrow({1}, {length})}, hidden, 2}, std::to_string(length));
    expect_call_refused(
        {"GRU", {sequence, floats({1, 9, 2}), floats({1, 9, 3}), Value(), narrow({1}, {length})}, hidden, 2},
        std::to_string(length));
    expect_call_refused(
        {"LSTM", {sequence, floats({1, 12, 2}), floats({1, 12, 3}), Value(), narrow({1}, {length})}, hidden, 3},
        std::to_string(length));
  }
}

TEST(HostileIndex, PositionsOfRotationsAndPastsOfAttentionStayInside) {
  const Tensor x = floats({1, 2, 3, 4}), cache = floats({5, 2});
  for (const std::int64_t position : {std::int64_t{5}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    expect_call_refused({"RotaryEmbedding", {x, cache, cache, integers({1, 3}, {0, 1, position})}},
                        "position " + std::to_string(position) + " is outside [0, 5)");
  }
  expect_call_refused({"RotaryEmbedding", {x, cache, floats({4, 2}), integers({1, 3}, {0, 1, 4})}},
                      "'sin_cache' has shape [4, 2], expected [5, 2]");
  const Tensor q = floats({1, 1, 2, 4});
  for (const std::int64_t length : {std::int64_t{3}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    expect_call_harmless({"Attention", {q, q, q, Value(), Value(), Value(), integers({1}, {length})}});
  }
}

TEST(HostileIndex, RegionsStayInsideOfTheirPictures) {
  const Tensor image = floats({1, 1, 4, 4}), roi = Tensor::from<float>({1, 4}, {0, 0, 3, 3});
  const ir::Attributes size{{"output_height", std::int64_t{2}}, {"output_width", std::int64_t{2}}};
  for (const std::int64_t batch : {std::int64_t{1}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    expect_call_refused({"RoiAlign", {image, roi, integers({1}, {batch})}, size},
                        "batch index " + std::to_string(batch) + " is outside [0, 1)");
  }
  expect_call_refused({"RoiAlign", {image, Tensor::from<float>({1, 4}, {0, 0, 1e30f, 3}), integers({1}, {0})}, size},
                      "samples");
  expect_call_refused({"RoiAlign", {image, Tensor::from<float>({1, 4}, {0, 0, NAN, 3}), integers({1}, {0})}, size},
                      "corner");
  const ir::Attributes pooled{{"pooled_shape", Integers{2, 2}}};
  for (const float batch : {1.0f, -1.0f, NAN, INFINITY, -INFINITY, 1e30f}) {
    expect_call_refused({"MaxRoiPool", {image, Tensor::from<float>({1, 5}, {batch, 0, 0, 3, 3})}, pooled},
                        "is outside [0, 1)");
  }
  expect_call_harmless({"MaxRoiPool", {image, Tensor::from<float>({1, 5}, {0, -1e30f, -1e30f, 1e30f, 1e30f})}, pooled});
  expect_call_harmless(
      {"GridSample", {image, Tensor::from<float>({1, 1, 3, 2}, {NAN, INFINITY, -INFINITY, 1e30f, -1e30f, 0})}});
  const Tensor boxes = Tensor::from<float>({1, 3, 4}, {NAN, 0, 1, 1, INFINITY, -INFINITY, 1, 1, 0, 0, 1e30f, 1e30f}),
               scores = Tensor::from<float>({1, 1, 3}, {NAN, 1, 2});
  expect_call_harmless({"NonMaxSuppression", {boxes, scores, integers({1}, {INT64_MAX})}});
  expect_call_harmless({"NonMaxSuppression", {boxes, scores, integers({1}, {INT64_MIN})}});
}

}  // namespace
}  // namespace tessera::test::hostile_index_test
