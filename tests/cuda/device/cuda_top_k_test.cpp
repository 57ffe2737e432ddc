// TopK of the CUDA backend on the simulated driver, whose kernels run in the emulation, against the reference: values
// and positions are equal to the last bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "backends/backend_table.h"
#include "driver/control.h"
#include "ir/text.h"
#include "support/device_call.h"
#include "support/random_tensor.h"
#include "tessera/session.h"

namespace tessera::test::cuda_top_k_test {
namespace {

const backends::Device& gpu() {
  return backends::find_device("cuda");
}

OpCall top_k(const Tensor& x, std::int64_t k, std::int64_t largest = 1, std::int64_t axis = -1) {
  return {"TopK", {x, Tensor::from<std::int64_t>({1}, {k})}, {{"largest", largest}, {"axis", axis}}, 2};
}

void expect_same(const Tensor& actual, const Tensor& expected, const char* what) {
  ASSERT_EQ(actual.shape(), expected.shape());
  ASSERT_EQ(actual.dtype(), expected.dtype());
  if (expected.bytes() == 0) return;
  EXPECT_EQ(std::memcmp(actual.raw(), expected.raw(), static_cast<std::size_t>(expected.bytes())), 0) << what;
}

void expect_as_reference(const OpCall& call) {
  const DeviceCall prepared(gpu(), call, {false, true});
  const std::unique_ptr<backends::Stream> stream = gpu().make_stream();
  prepared.copy_inputs(*stream);
  prepared.enqueue(*stream);
  const std::vector<Tensor> actual = prepared.copy_outputs(*stream);
  stream->synchronise();
  const std::vector<Value> expected = run_op(call);
  ASSERT_EQ(actual.size(), 2u);
  expect_same(actual[0], expected[0].tensor(), "values");
  expect_same(actual[1], expected[1].tensor(), "indices");
}

// Whole numbers from -9 to 9, so that many are equal.
Tensor whole_numbers(DType type, const Shape& shape) {
  const Tensor rounded = run_op_tensor({"Round", {random_tensor(DType::f32, shape, 1, -9, 9)}});
  return run_op_tensor({"Cast", {rounded}, {{"to", static_cast<std::int64_t>(type)}}});
}

TEST(CudaTopK, EveryShapeAndNumberOfElements) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::i32}) {
    for (const Shape& shape : {Shape{1}, Shape{5, 3}, Shape{3, 100}, Shape{2, 3, 700}, Shape{2, 257}, Shape{0, 9}}) {
      const std::int64_t length = shape.back();
      for (const std::int64_t k : {std::int64_t{0}, std::int64_t{1}, length / 2, length - 1, length}) {
        for (const std::int64_t largest : {0, 1}) {
          SCOPED_TRACE(std::to_string(k) + " of " + std::to_string(length));
          expect_as_reference(top_k(whole_numbers(type, shape), k, largest));
        }
      }
    }
  }
}

TEST(CudaTopK, NumbersThatAreAllDifferent) {
  for (const std::int64_t k : {1, 2, 31, 500}) expect_as_reference(top_k(random_tensor(DType::f32, {2, 1500}, 1), k));
  const Tensor far_apart = random_tensor(DType::i32, {3, 77}, 1, -2147483647, 2147483647);
  for (const std::int64_t largest : {0, 1}) expect_as_reference(top_k(far_apart, 20, largest));
}

TEST(CudaTopK, AxesThatAreNotTheLast) {
  for (const std::int64_t axis : {0, 1, -2, -3})
    expect_as_reference(top_k(whole_numbers(DType::f32, {4, 9, 5}), 3, 1, axis));
}

TEST(CudaTopK, AnyOrderOfItsThreads) {
  const Tensor x = whole_numbers(DType::f32, {3, 300});
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    tessera_simulated_cuda_set_seed(seed);
    expect_as_reference(top_k(x, static_cast<std::int64_t>(seed) * 15, static_cast<std::int64_t>(seed % 2)));
  }
  tessera_simulated_cuda_set_seed(0);
}

// More than are sorted in shared memory.
TEST(CudaTopK, ManyElements) {
  for (const std::int64_t k : {1024, 1025, 2999, 3000})
    expect_as_reference(top_k(whole_numbers(DType::f32, {2, 3000}), k));
}

TEST(CudaTopK, EqualElements) {
  for (const std::int64_t largest : {0, 1}) {
    const Tensor x =
        run_op_tensor({"Expand", {Tensor::from<float>({1}, {2.5f}), Tensor::from<std::int64_t>({1}, {600})}});
    for (const std::int64_t k : {1, 255, 256, 300, 599}) expect_as_reference(top_k(x, k, largest));
  }
}

TEST(CudaTopK, NotANumberIsLargest) {
  const float x[] = {1,    NAN, -INFINITY, 0, -0.0f, INFINITY, NAN,    2, 0,      INFINITY,
                     -NAN, -3,  2,         7, 7,     7,        1e-42f, 1, -1e-42f};
  const Tensor values = Tensor::from<float>({19}, std::span<const float>(x));
  for (std::int64_t k = 1; k <= 19; ++k) {
    for (const std::int64_t largest : {0, 1}) expect_as_reference(top_k(values, k, largest));
  }
}

// A result that nobody wants is not written.
TEST(CudaTopK, OneOfTheResultsAlone) {
  const NamedValues given{{"x", whole_numbers(DType::f32, {3, 40})}};
  for (const char* const text :
       {"graph { input %x : f32[3, 40] constant %k = i64[1] {7} %v, none = TopK (%x, %k) output %v }",
        "graph { input %x : f32[3, 40] constant %k = i64[1] {7} none, %i = TopK (%x, %k) output %i }"}) {
    const Model model(std::make_shared<ir::Graph>(ir::parse(text)));
    const NamedValues actual = Session(model, {.device = "cuda"}).run(given);
    const NamedValues expected = Session(model, {.device = "reference"}).run(given);
    ASSERT_EQ(actual.size(), 1u);
    expect_same(actual.begin()->second.tensor(), expected.begin()->second.tensor(), text);
  }
}

// The host computes a TopK whose K is known only when it runs.
TEST(CudaTopK, AComputedNumberOfElements) {
  const NamedValues given{{"x", whole_numbers(DType::f32, {3, 40})}, {"k", Tensor::from<std::int64_t>({1}, {7})}};
  const Model model(std::make_shared<ir::Graph>(
      ir::parse("graph { input %x : f32[3, 40] input %k : i64[1] %n = Neg (%x) %v, none = TopK (%n, %k) output %v }")));
  const NamedValues actual = Session(model, {.device = "cuda"}).run(given);
  const NamedValues expected = Session(model, {.device = "reference"}).run(given);
  expect_same(actual.begin()->second.tensor(), expected.begin()->second.tensor(), "values");
}

}  // namespace
}  // namespace tessera::test::cuda_top_k_test
