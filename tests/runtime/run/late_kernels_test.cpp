// Steps whose operand types depend on data: kernels are kept for the types that come again.
#include "runtime/run/late_kernels.h"

#include <gtest/gtest.h>

#include "backends/backend_table.h"
#include "ops/op_table.h"
#include "support/pass_context.h"
#include "support/random_tensor.h"
#include "support/tolerance.h"
#include "tessera/session.h"

namespace tessera::runtime::late_kernels_test {
namespace {

class CountingStore final : public backends::WeightStore {
 public:
  std::shared_ptr<const backends::PackedWeights> find_or_pack(const Tensor& weights, std::string_view,
                                                              std::int64_t bytes,
                                                              const backends::PackFunction& pack) override {
    ++packed;
    auto data = std::shared_ptr<std::byte[]>(
        static_cast<std::byte*>(std::aligned_alloc(64, static_cast<std::size_t>((bytes + 63) / 64 * 64))), std::free);
    pack(weights, data.get());
    return std::make_shared<const backends::PackedWeights>(backends::PackedWeights{data, bytes});
  }
  int packed = 0;
};

ops::TensorType type_of_tensor(const Tensor& tensor) {
  return {tensor.dtype(), tensor.shape()};
}

// A kernel for a node of two operands and one output.
std::shared_ptr<const backends::Kernel> find(LateKernels& kernels, const std::string& op, const Tensor& a,
                                             const Tensor& b, Shape output) {
  const ir::Node node{op, "", {{0}, {1}}, {{2}}, {}, 0};
  const std::vector<ops::TensorType> inputs{type_of_tensor(a), type_of_tensor(b)}, outputs{{DType::f32, output}};
  const std::vector<const Tensor*> constants{&a, &b};
  return kernels.find_or_make(backends::find_device("cpu"),
                              ops::NodeView(node, *ops::find_op(op), inputs, outputs, constants));
}

TEST(LateKernels, PackTheGraphsConstantsOnce) {
  CountingStore store;
  LateKernels kernels({false, true}, store);
  const Tensor weights = test::random_tensor(DType::f32, {64, 48}, 1);
  const auto rows = [&](std::int64_t count) {
    return find(kernels, "MatMul", test::random_tensor(DType::f32, {count, 64}, 2), weights, {count, 48});
  };
  const auto eight = rows(8);
  const int packed = store.packed;
  ASSERT_NE(eight, nullptr);
  EXPECT_EQ(rows(8), eight);
  EXPECT_EQ(kernels.made(), 1);
  EXPECT_EQ(store.packed, packed);
  EXPECT_NE(rows(9), eight);
  EXPECT_EQ(rows(8), eight);
  EXPECT_EQ(kernels.made(), 2);
}

TEST(LateKernels, RelyOnLargeOperandsByTypeAlone) {
  CountingStore store;
  LateKernels kernels({false, false}, store);
  const auto product = [&](std::uint64_t seed) {
    return find(kernels, "MatMul", test::random_tensor(DType::f32, {8, 64}, seed),
                test::random_tensor(DType::f32, {64, 48}, seed), {8, 48});
  };
  const auto first = product(1);
  EXPECT_EQ(product(2), first);
  EXPECT_EQ(kernels.made(), 1);
  EXPECT_EQ(store.packed, 0);  // another run's operand would be another's weights
}

TEST(LateKernels, RelyOnTheContentsOfSmallOperands) {
  CountingStore store;
  LateKernels kernels({false, false}, store);
  const Tensor data = test::random_tensor(DType::f32, {4, 1}, 1);
  const auto expand = [&](std::int64_t columns) {
    return find(kernels, "Expand", data, Tensor::from<std::int64_t>({2}, {4, columns}), {4, 6});
  };
  const auto six = expand(6);
  EXPECT_EQ(expand(6), six);
  EXPECT_NE(expand(1), six);
  EXPECT_EQ(kernels.made(), 2);
}

TEST(LateKernels, OnlySoManyAreKept) {
  CountingStore store;
  LateKernels kernels({false, false}, store);
  const auto sum = [&](std::int64_t size) {
    return find(kernels, "Add", Tensor(DType::f32, {size}), Tensor(DType::f32, {size}), {size});
  };
  for (std::int64_t size = 100; size < 117; ++size) sum(size);
  EXPECT_EQ(kernels.made(), 17);
  sum(101);
  EXPECT_EQ(kernels.made(), 17);
  sum(100);  // the one not used for longest
  EXPECT_EQ(kernels.made(), 18);
}

// Rows of x that are not zero, times weights: how many there are is data.
TEST(LateKernels, SessionsShareTheirPackings) {
  const Tensor weights = test::random_tensor(DType::f32, {64, 256}, 3);
  auto graph = std::make_shared<ir::Graph>(
      test::parsed("graph { input %x : f32[20] input %t : f32[20, 64] %i = NonZero (%x) constant %a = i64[1] {0} "
                   "%j = Squeeze (%i, %a) %r = Gather (%t, %j) output %r }"));
  const ir::ValueId product = graph->add_op("MatMul", {graph->outputs()[0], graph->add_constant(weights)}, {}, "y");
  graph->set_outputs({product});
  Session session{Model(graph)}, reference(Model(graph), {.device = "reference"});
  const Tensor table = test::random_tensor(DType::f32, {20, 64}, 4);
  std::int64_t packed = 0;
  for (const int count : {5, 9, 5, 20, 9, 5}) {
    Tensor x(DType::f32, {20});
    for (int i = 0; i < 20; ++i) x.mutable_data<float>()[i] = i < count ? 1.0f : 0.0f;
    const NamedValues inputs{{"x", x}, {"t", table}};
    const Tensor y = session.run(inputs).at("y").tensor();
    EXPECT_EQ(y.shape(), (Shape{count, 256}));
    EXPECT_TRUE(test::close_to(y, reference.run(inputs).at("y").tensor(), test::Tolerance::epsilons(DType::f32, 500)));
    if (packed == 0) packed = session.memory().packed_weights_bytes;
    EXPECT_EQ(session.memory().packed_weights_bytes, packed);
  }
  EXPECT_GE(packed, weights.bytes());
}

}  // namespace
}  // namespace tessera::runtime::late_kernels_test
