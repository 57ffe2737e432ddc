// How far results of float32 are from those of float64, net by net: with Winograd's transforms, fused activations and
// sums in any order.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "models/models.h"
#include "ops/infer.h"
#include "runtime/random_inputs.h"
#include "tessera/session.h"

namespace tessera::float64_test {
namespace {

Tensor widened(const Tensor& tensor) {
  if (tensor.dtype() != DType::f32) return tensor;
  Tensor wide(DType::f64, tensor.shape());
  std::copy_n(tensor.data<float>(), tensor.elements(), wide.mutable_data<double>());
  return wide;
}

// The same net of float64.
ir::Graph widened(ir::Graph graph) {
  const std::size_t count = graph.value_count();
  std::vector<ir::ValueId> replacements(count);
  for (std::size_t i = 0; i < count; ++i) {
    const ir::ValueId id{static_cast<std::int32_t>(i)};
    const Tensor* constant = graph.constant(id);
    if (constant != nullptr && constant->dtype() == DType::f32)
      replacements[i] = graph.add_constant(widened(*constant));
    else if (graph.value(id).type.is_tensor() && graph.value(id).type.dtype == DType::f32)
      graph.value(id).type.dtype = DType::f64;
  }
  graph.replace_uses(replacements);
  for (const ir::NodeId id : graph.order()) {
    ir::Node& node = graph.node(id);
    if (node.op == "Cast" && std::get<std::int64_t>(node.attributes.at("to")) == static_cast<std::int64_t>(DType::f32))
      node.attributes["to"] = static_cast<std::int64_t>(DType::f64);
    if (const auto value = node.attributes.find("value");
        value != node.attributes.end() && std::holds_alternative<Tensor>(value->second))
      value->second = widened(std::get<Tensor>(value->second));
  }
  ops::infer_graph(graph);
  return graph;
}

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
  models::ModelOptions options;
  for (const models::ModelEntry& net : models::all_models()) {
    if (net.name != GetParam()) continue;
    for (const char* dim : {"batch", "seq", "time"}) {
      if (net.dims.find(dim) != std::string_view::npos) options.dims[dim] = dim == std::string_view("batch") ? 1 : 32;
    }
  }
  ir::Graph graph = models::build_model(GetParam(), options);
  const Model model(std::make_shared<const ir::Graph>(graph)),
      wide(std::make_shared<const ir::Graph>(widened(std::move(graph))));
  const NamedValues inputs = runtime::random_inputs(model, 5);
  NamedValues wide_inputs;
  for (const auto& [name, value] : inputs) wide_inputs.emplace(name, widened(value.tensor()));
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
