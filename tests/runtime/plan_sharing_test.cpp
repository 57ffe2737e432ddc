// Plans of one model for many shapes: equal to those of a session that has planned nothing else, made with what other
// plans found out, and stopped while they are made.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "models/models.h"
#include "runtime/session/random_inputs.h"
#include "support/expect_error.h"
#include "tessera/session.h"

namespace tessera::runtime::plan_sharing_test {
namespace {

Model net(std::string_view name) {
  return Model(std::make_shared<ir::Graph>(models::build_model(name)));
}

// The same data for the same sizes.
NamedValues inputs_of(const Model& model, std::map<std::string, std::int64_t> dims) {
  return random_inputs(model.with_dims(dims), 1);
}

bool same_bits(const NamedValues& a, const NamedValues& b) {
  return a.size() == b.size() && std::ranges::all_of(a, [&](const auto& each) {
           const Tensor &left = each.second.tensor(), &right = b.at(each.first).tensor();
           return left.shape() == right.shape() &&
                  std::memcmp(left.raw(), right.raw(), static_cast<std::size_t>(left.bytes())) == 0;
         });
}

struct Sweep {
  std::string_view net, dim;
  std::vector<std::int64_t> sizes;
};

class PlanSharing : public testing::TestWithParam<Sweep> {};

// Sizes that are met by other sizes of the model (heads, widths) and by one are among them.
INSTANTIATE_TEST_SUITE_P(Nets, PlanSharing,
                         testing::Values(Sweep{"masked_lm", "batch", {2, 1, 3, 16, 4}},
                                         Sweep{"bert_mini", "seq", {3, 40, 1, 4, 41, 64, 5, 32, 33, 2}},
                                         Sweep{"lstm", "batch", {3, 1, 4}}, Sweep{"conv1d", "batch", {2, 1, 3, 40}},
                                         Sweep{"unet_small", "batch", {2, 1, 3}}),
                         [](const auto& tried) { return std::string(tried.param.net); });

TEST_P(PlanSharing, APlanIsTheSameWhateverWasPlannedBefore) {
  const auto& [name, dim, sizes] = GetParam();
  const Model model = net(name);
  Session swept(model);
  for (const std::int64_t size : sizes) {
    std::map<std::string, std::int64_t> dims{{"batch", 1}};
    dims[std::string(dim)] = size;
    const NamedValues inputs = inputs_of(model, dims);
    Session fresh(model);
    EXPECT_EQ(swept.describe_plan(inputs, true), fresh.describe_plan(inputs, true)) << name << " " << size;
    EXPECT_TRUE(same_bits(swept.run(inputs), fresh.run(inputs))) << name << " " << size;
  }
}

TEST(PlanStops, ARunThatIsCancelledPlansNothing) {
  const Model model = net("bert_mini");
  Session session(model);
  const NamedValues inputs = inputs_of(model, {{"batch", 1}, {"seq", 16}});
  Cancellation cancellation;
  cancellation.cancel();
  test::expect_error(ErrorKind::cancelled, "the run was cancelled",
                     [&] { session.run(inputs, {.cancellation = &cancellation}); });
  EXPECT_EQ(session.memory().plans_bytes, 0);
  EXPECT_EQ(session.memory().packed_weights_bytes, 0);
  EXPECT_NO_THROW(session.run(inputs));
}

TEST(PlanStops, PlanningCountsAgainstTheTimeLimit) {
  const Model model = net("bert_mini");
  Session session(model);
  const NamedValues inputs = inputs_of(model, {{"batch", 1}, {"seq", 16}});
  RunOptions options;
  options.time_limit_ns = 1;
  EXPECT_THROW(session.run(inputs, options), Error);
  EXPECT_EQ(session.memory().plans_bytes, 0);
}

}  // namespace
}  // namespace tessera::runtime::plan_sharing_test
