// Own nets on the simulated device, with the bits of the host device whose kernels it computes by. Large ones are run
// by hand (docs/simulated.md).
#include <gtest/gtest.h>

#include "models/models.h"
#include "runtime/session/random_inputs.h"
#include "tessera/session.h"

namespace tessera::models::simulated_test {
namespace {

struct Net {
  const char* name;
  std::map<std::string, std::int64_t> dims;
  const char* computes_by;
};

class SimulatedNet : public testing::TestWithParam<Net> {};

TEST_P(SimulatedNet, HasTheBitsOfTheHost) {
  const Net& net = GetParam();
  BuildOptions options;
  options.dims = net.dims;
  const Model model(std::make_shared<ir::Graph>(build_model(net.name, options)));
  const NamedValues inputs = runtime::random_inputs(model, 3);
  Session host(model, {.device = net.computes_by});
  Session device(model, {.device = std::string("simulated:l4,compute=") + net.computes_by});
  const NamedValues expected = host.run(inputs);
  for (int repetition = 0; repetition < 3; ++repetition) {
    const NamedValues actual = device.run(inputs, RunOptions{.capture = repetition > 0});
    ASSERT_EQ(actual.size(), expected.size());
    for (const auto& [name, value] : expected) {
      SCOPED_TRACE(name);
      EXPECT_TRUE(identical(actual.at(name).tensor(), value.tensor()));
    }
  }
}

// The work of streams interleaves in other orders for each seed, and kernels that could start at once do so in another
// order in virtual time; the results have the same bits, and no event is missing.
TEST_P(SimulatedNet, HasTheseBitsInAnyOrderOfItsStreams) {
  const Net& net = GetParam();
  BuildOptions options;
  options.dims = net.dims;
  const Model model(std::make_shared<ir::Graph>(build_model(net.name, options)));
  const NamedValues inputs = runtime::random_inputs(model, 4);
  const NamedValues expected = Session(model, {.device = net.computes_by}).run(inputs);
  for (int seed = 1; seed <= 20; ++seed) {
    Session device(model,
                   {.device = fmt::format("simulated:l4,compute={},seed={},shuffle={}", net.computes_by, seed, seed)});
    for (int repetition = 0; repetition < 3; ++repetition) {
      const NamedValues actual = device.run(inputs, RunOptions{.capture = repetition > 0});
      for (const auto& [name, value] : expected)
        ASSERT_TRUE(identical(actual.at(name).tensor(), value.tensor())) << name << ", seed " << seed;
    }
  }
}

std::string name_of_net(const testing::TestParamInfo<Net>& info) {
  return std::string(info.param.name) + "_by_" + info.param.computes_by;
}
INSTANTIATE_TEST_SUITE_P(
    Nets, SimulatedNet,
    testing::Values(Net{"lenet5", {{"batch", 2}}, "reference"}, Net{"lenet5", {{"batch", 2}}, "cpu"},
                    Net{"mobilenet_v2", {{"batch", 1}}, "cpu"}, Net{"mobilenet_v3_small", {{"batch", 2}}, "cpu"},
                    Net{"bert_mini", {{"batch", 1}, {"seq", 16}}, "cpu"}, Net{"dlrm", {{"batch", 4}}, "cpu"},
                    Net{"dlrm", {{"batch", 2}}, "reference"}, Net{"lstm", {{"batch", 1}, {"time", 8}}, "cpu"},
                    Net{"ssd", {{"batch", 1}}, "cpu"}),
    name_of_net);

}  // namespace
}  // namespace tessera::models::simulated_test
