#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "tessera/graph.h"
#include "tessera/session.h"

namespace tessera::models::net_builder_test {
namespace {

TEST(NetBuilder, MakesNetsThatRun) {
  NetBuilder net("small");
  NetValue x = net.input("x", DType::f32, {"batch", 3, 12, 12});
  x = net.relu(net.batch_norm("bn", net.conv("conv", x, 8, {{3, 3}, 2, 1})));
  EXPECT_EQ(net.type_of(x), "f32[batch, 8, 6, 6]");
  x = net.max_pool(x, {2, 2}, 2);
  x = net.linear("head", net.flatten(net.sum(x, x)), 5);
  net.output("y", net.softmax(x));
  Session session(net.build());
  const Tensor y = session.run({{"x", test::random_tensor(DType::f32, {2, 3, 12, 12}, 1, -1, 1)}}).at("y").tensor();
  ASSERT_EQ(y.shape(), (Shape{2, 5}));
  float sum = 0;
  for (const float element : y.values<float>().subspan(0, 5)) sum += element;
  EXPECT_NEAR(sum, 1, 1e-5);
}

TEST(NetBuilder, MakesTransformersAndAnyOperator) {
  NetBuilder net("text");
  const NetValue tokens = net.input("tokens", DType::i64, {"batch", 7});
  NetValue x = net.embedding("table", tokens, 20, 16);
  x = net.sum(x, net.attention("attention", net.layer_norm("norm", x), 4));
  const std::vector<NetValue> top =
      net.add("TopK", {x, net.constant(Tensor::from<std::int64_t>({1}, {3}))}, 2, {{"axis", std::int64_t{-1}}});
  net.output("top", net.gelu(top[0]));
  net.output("where", top[1]);
  const Model model = net.build();
  EXPECT_EQ(model.outputs()[0].type, "f32[batch, 7, 3]");
  Session session(model);
  Tensor numbers(DType::i64, {1, 7});
  for (std::int64_t i = 0; i < 7; ++i) numbers.mutable_data<std::int64_t>()[i] = 2 * i;
  EXPECT_EQ(session.run({{"tokens", numbers}}).at("where").tensor().shape(), (Shape{1, 7, 3}));
}

TEST(NetBuilder, SaysWhatIsWrong) {
  const auto refuses = [](ErrorKind kind, const char* text, auto call) {
    test::expect_error_containing(kind, text, [&] {
      NetBuilder net("wrong");
      const NetValue x = net.input("x", DType::f32, {"batch", "channels", 4});
      call(net, x);
    });
  };
  refuses(ErrorKind::invalid_argument,
          "layer 'c' needs the size of axis 1 of its input, which is f32[batch, channels, 4]",
          [](NetBuilder& net, NetValue x) { net.conv("c", x, 2, {{3}}); });
  refuses(ErrorKind::invalid_argument, "3 heads do not divide width 4",
          [](NetBuilder& net, NetValue x) { net.attention("a", x, 3); });
  refuses(ErrorKind::invalid_argument, "net 'wrong' has no output", [](NetBuilder& net, NetValue) { net.build(); });
  refuses(ErrorKind::invalid_argument, "a value of another net", [](NetBuilder& net, NetValue) {
    NetBuilder other("other");
    NetValue last = other.input("a", DType::f32, {1});
    for (int i = 0; i < 5; ++i) last = other.relu(last);
    net.relu(last);
  });
}

}  // namespace
}  // namespace tessera::models::net_builder_test
