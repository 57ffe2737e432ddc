#include <gtest/gtest.h>

#include "backends/cpu/cpu_device.h"
#include "backends/cpu/simd.h"
#include "support/random_tensor.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::backends::cpu::recurrent_test {
namespace {

struct Sizes {
  std::int64_t length, batch, features, hidden;
  std::string direction = "forward";
  bool bias_and_states = true;
};

void check(const std::string& op, const Sizes& s) {
  SCOPED_TRACE(op + " " + s.direction + " hidden " + std::to_string(s.hidden));
  const std::int64_t directions = s.direction == "bidirectional" ? 2 : 1, gates = op == "LSTM" ? 4 : 3;
  const auto random = [](Shape shape, std::uint64_t seed) {
    return test::random_tensor(DType::f32, shape, seed, -0.3, 0.3);
  };
  test::OpCall call{op,
                    {random({s.length, s.batch, s.features}, 1), random({directions, gates * s.hidden, s.features}, 2),
                     random({directions, gates * s.hidden, s.hidden}, 3)},
                    {{"direction", s.direction}, {"hidden_size", s.hidden}},
                    op == "LSTM" ? 3u : 2u};
  if (s.bias_and_states) {
    call.inputs.emplace_back(random({directions, 2 * gates * s.hidden}, 4));
    call.inputs.emplace_back();
    call.inputs.emplace_back(random({directions, s.batch, s.hidden}, 5));
    if (op == "LSTM") call.inputs.emplace_back(random({directions, s.batch, s.hidden}, 6));
  }
  if (op == "GRU") call.attributes.emplace("linear_before_reset", std::int64_t{1});
  const std::vector<Value> expected = test::run_op(call, "reference");
  for (const base::Isa isa : {base::Isa::scalar, base::Isa::avx2, base::Isa::avx512}) {
    const ScopedIsa scoped(isa);
    const std::vector<Value> one = test::run_op(call, "cpu", 1);
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_TRUE(test::close_to(one[i].tensor(), expected[i].tensor(), test::Tolerance::epsilons(DType::f32, 40)))
          << "output " << i << " isa " << static_cast<int>(isa);
      for (const int threads : {2, 3}) {
        EXPECT_TRUE(identical(test::run_op(call, "cpu", threads)[i].tensor(), one[i].tensor()));
      }
    }
  }
}

TEST(CpuRecurrent, OddSizesAndDirections) {
  for (const std::string op : {"LSTM", "GRU"}) {
    check(op, {5, 1, 3, 7});
    check(op, {4, 3, 6, 33, "reverse"});
    check(op, {6, 2, 5, 16, "bidirectional", false});
  }
}

TEST(CpuRecurrent, SeveralChunks) {
  for (const std::string op : {"LSTM", "GRU"}) {
    for (const std::string direction : {"forward", "reverse", "bidirectional"}) check(op, {4, 2, 4, 200, direction});
  }
}

}  // namespace
}  // namespace tessera::backends::cpu::recurrent_test
