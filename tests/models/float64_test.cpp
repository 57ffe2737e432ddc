// How far results of float32 are from those of float64, net by net: with Winograd's transforms, fused activations and
// sums in any order.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "models/models.h"
#include "runtime/session/random_inputs.h"
#include "support/float64_graph.h"
#include "tessera/session.h"

namespace tessera::float64_test {
namespace {

double norm(const Tensor& exact, const Tensor* other) {
  double sum = 0;
  for (std::int64_t i = 0; i < exact.elements(); ++i) {
    const double value =
        exact.data<double>()[i] - (other == nullptr ? 0.0 : static_cast<double>(other->data<float>()[i]));
    sum += value * value;
  }
  return std::sqrt(sum);
}

// Small nets; all of them, which takes many minutes, where TESSERA_SLOW_TESTS is set.
std::vector<std::string> nets() {
  std::vector<std::string> names{"lenet5", "resnet18", "mobilenet_v3_small", "bert_mini"};
  if (std::getenv("TESSERA_SLOW_TESTS") == nullptr) return names;
  names.clear();
  for (const models::ModelEntry& net : models::all_models()) {
    if (net.name != "ssd") names.emplace_back(net.name);  // NonMaxSuppression is of float32
  }
  return names;
}

class Float64 : public testing::TestWithParam<std::string> {};

TEST_P(Float64, ResultsAreWithinATenThousandth) {
  models::BuildOptions options;
  for (const models::ModelEntry& net : models::all_models()) {
    if (net.name != GetParam()) continue;
    for (const char* dim : {"batch", "seq", "time"}) {
      if (net.dims.find(dim) != std::string_view::npos) options.dims[dim] = dim == std::string_view("batch") ? 1 : 32;
    }
  }
  ir::Graph graph = models::build_model(GetParam(), options);
  const Model model(std::make_shared<const ir::Graph>(graph)),
      wide(std::make_shared<const ir::Graph>(test::float64_graph(std::move(graph))));
  const NamedValues inputs = runtime::random_inputs(model, 5);
  NamedValues wide_inputs;
  for (const auto& [name, value] : inputs) wide_inputs.emplace(name, test::float64_tensor(value.tensor()));
  const NamedValues exact = Session(wide, {.device = "reference"}).run(wide_inputs), got = Session(model).run(inputs);
  for (const auto& [name, value] : exact) {
    ASSERT_EQ(value.tensor().dtype(), DType::f64) << name;
    const double distance = norm(value.tensor(), &got.at(name).tensor()) / norm(value.tensor(), nullptr);
    RecordProperty(name, fmt::format("{:.2e}", distance));
    EXPECT_LE(distance, 1e-4) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, Float64, testing::ValuesIn(nets()), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tessera::float64_test
