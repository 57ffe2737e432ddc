// QuantizeLinear and DequantizeLinear of the CUDA backend on the simulated driver, whose kernels run in the emulation,
// against the reference: to the last bit, except where f16 and bf16 are rounded from f32.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "backends/backend_table.h"
#include "ir/text.h"
#include "support/device_call.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/tolerance.h"
#include "tessera/session.h"

namespace tessera::test::cuda_quantisation_test {
namespace {

constexpr DType kReals[] = {DType::f32, DType::f16, DType::bf16};
constexpr DType kIntegers[] = {DType::i8, DType::u8, DType::i16, DType::u16};

void expect_as_reference(const OpCall& call) {
  const Tensor actual = run_on_device(backends::find_device("cuda"), call), expected = run_op_tensor(call);
  ASSERT_EQ(actual.dtype(), expected.dtype());
  ASSERT_EQ(actual.shape(), expected.shape());
  if (expected.bytes() == 0) return;
  EXPECT_EQ(std::memcmp(actual.raw(), expected.raw(), static_cast<std::size_t>(expected.bytes())), 0)
      << call.op << " of " << name_of(call.inputs[0].tensor().dtype());
}

TEST(CudaQuantisation, OneScale) {
  for (const DType integer : kIntegers) {
    const Tensor zero = random_tensor(integer, {}, 9, 3, 5);
    for (const DType real : kReals) {
      const Tensor scale = random_tensor(real, {}, 8, 0.05, 0.2);
      for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{67}, Shape{3, 401}}) {
        expect_as_reference({"QuantizeLinear", {random_tensor(real, shape, 1, -20, 20), scale, zero}});
        expect_as_reference({"DequantizeLinear", {random_tensor(integer, shape, 1, 0, 120), scale, zero}});
        expect_as_reference({"DequantizeLinear", {random_tensor(integer, shape, 1, 0, 120), scale}});
      }
    }
  }
  expect_as_reference({"QuantizeLinear", {random_tensor(DType::f32, {9}, 1, -1, 90), Tensor::scalar(0.5f)}});
}

TEST(CudaQuantisation, ScalesAlongAnAxis) {
  for (const DType integer : {DType::i8, DType::u16}) {
    for (const std::int64_t axis : {0, 1, -1}) {
      const Shape shape = {5, 7, 35}, scales = {shape[static_cast<std::size_t>(axis < 0 ? 2 : axis)]};
      const Tensor scale = random_tensor(DType::f32, scales, 2, 0.05, 0.2),
                   zeros = random_tensor(integer, scales, 3, 0, 9);
      expect_as_reference(
          {"QuantizeLinear", {random_tensor(DType::f32, shape, 1, -20, 20), scale, zeros}, {{"axis", axis}}});
      expect_as_reference(
          {"DequantizeLinear", {random_tensor(integer, shape, 1, 0, 120), scale, zeros}, {{"axis", axis}}});
    }
  }
}

TEST(CudaQuantisation, ScalesOfBlocks) {
  for (const std::int64_t axis : {0, 1, 2}) {
    const Shape shape = {5, 7, 9};
    Shape scales = shape;
    scales[static_cast<std::size_t>(axis)] = (shape[static_cast<std::size_t>(axis)] + 3) / 4;
    const Tensor scale = random_tensor(DType::f32, scales, 2, 0.05, 0.2),
                 zeros = random_tensor(DType::u8, scales, 3, 0, 9);
    const ir::Attributes blocks{{"axis", axis}, {"block_size", std::int64_t{4}}};
    expect_as_reference({"QuantizeLinear", {random_tensor(DType::f32, shape, 1, -20, 20), scale, zeros}, blocks});
    expect_as_reference({"DequantizeLinear", {random_tensor(DType::u8, shape, 1, 0, 120), scale, zeros}, blocks});
  }
}

// Halves, saturation, infinities and not-a-number at scale 0.5; scales that are 0 and infinite.
TEST(CudaQuantisation, Edges) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::from<float>(
      {12}, {0.25f, 0.75f, 1.25f, -0.25f, -0.75f, 1e9f, -1e9f, infinity, -infinity, NAN, -0.0f, 1e-40f});
  for (const DType integer : kIntegers) {
    for (const float scale : {0.5f, 0.0f, infinity})
      expect_as_reference({"QuantizeLinear", {x, Tensor::scalar(scale), random_tensor(integer, {}, 9, 3, 5)}});
  }
}

TEST(CudaQuantisation, TypesOfResultsAndQuotients) {
  const Tensor x = random_tensor(DType::f32, {3, 40}, 1, -20, 20), scale = Tensor::scalar(0.1f);
  for (const DType real : kReals) {
    expect_as_reference({"QuantizeLinear", {x, scale}, {{"precision", static_cast<std::int64_t>(real)}}});
    // The reference rounds once, the kernel first to f32.
    const OpCall call{"DequantizeLinear",
                      {random_tensor(DType::i16, {3, 40}, 1, -30000, 30000), scale},
                      {{"output_dtype", static_cast<std::int64_t>(real)}}};
    EXPECT_TRUE(close_to(run_on_device(backends::find_device("cuda"), call), run_op_tensor(call),
                         Tolerance::epsilons(real, 1)));
  }
}

TEST(CudaQuantisation, DifferencesBeyondFloat) {
  const Tensor x = random_tensor(DType::i32, {100}, 1, -2147483647, 2147483647);
  expect_as_reference({"DequantizeLinear", {x, Tensor::scalar(0.3f)}});
  expect_as_reference({"DequantizeLinear", {x, Tensor::scalar(0.3f), Tensor::scalar<std::int32_t>(2147483647)}});
}

// The device must not read zero points that are not there; the host reports them.
TEST(CudaQuantisation, FewerZeroPointsThanScales) {
  Session session(
      Model(std::make_shared<ir::Graph>(ir::parse("graph { input %x : u8[2, 3] input %s : f32[3] input %z : u8[2] "
                                                  "%y = DequantizeLinear (%x, %s, %z) output %y }"))),
      {.device = "cuda"});
  expect_error_containing(ErrorKind::invalid_model, "2 zero points for 3 scales", [&] {
    session.run({{"x", random_tensor(DType::u8, {2, 3}, 1, 0, 9)},
                 {"s", random_tensor(DType::f32, {3}, 2)},
                 {"z", random_tensor(DType::u8, {2}, 3, 0, 9)}});
  });
}

}  // namespace
}  // namespace tessera::test::cuda_quantisation_test
