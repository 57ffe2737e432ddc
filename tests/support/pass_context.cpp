#include "support/pass_context.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <sstream>

#include "backends/cpu/cpu_device.h"
#include "backends/reference/reference_device.h"
#include "base/error.h"
#include "ir/text.h"
#include "ops/core/infer.h"
#include "plan/choose_kernel.h"
#include "runtime/run/evaluate.h"
#include "runtime/session/random_inputs.h"
#include "support/tolerance.h"
#include "tessera/session.h"

namespace tessera::test {

passes::PassContext cpu_pass_context() {
  passes::PassContext result;
  result.evaluate = [](const ir::Node& node, std::span<const Value> inputs) {
    return runtime::evaluate_node(backends::reference_device(), node, inputs, {});
  };
  result.keeps_composite = [](const ir::Graph& graph, const ir::Node& node) {
    return plan::may_accept(backends::cpu_device(), graph, node);
  };
  result.computes_float16_in_float32 = !backends::cpu_device().supports_float16();
  return result;
}

ir::Graph parsed(const std::string& text) {
  ir::Graph graph = ir::parse(text);
  ops::infer_graph(graph);
  return graph;
}

std::vector<std::string> ops_of(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    const auto activation = node.attributes.find("activation");
    const bool added = node.op == "tessera::ChannelsLastConv" && node.inputs.size() > 3 && node.inputs[3].valid();
    names.push_back(node.op + (added ? " + Z" : "") +
                    (activation == node.attributes.end() ? "" : " " + std::get<std::string>(activation->second)));
  }
  return names;
}

std::vector<std::string> nodes_of(const ir::Graph& graph) {
  std::vector<std::string> lines;
  std::istringstream text(ir::print(graph));
  for (std::string line; std::getline(text, line);) {
    if (line.find(" = ") == std::string::npos || line.starts_with("  constant") || line.starts_with("  variable"))
      continue;
    line = line.substr(2, line.rfind(" : ") - 2);
    line = std::regex_replace(line, std::regex("%(constant|value|[A-Z][A-Za-z]+)_[0-9]+(:out)?"), "%?");
    lines.push_back(std::regex_replace(line, std::regex(" \"[^\"]*\" \\("), " ("));
  }
  return lines;
}

namespace {

const passes::Pass& pass_of(std::string_view name) {
  const auto all = passes::all_passes();
  const auto found = std::ranges::find_if(all, [&](const passes::Pass& pass) { return pass.name == name; });
  require(found != all.end(), ErrorKind::invalid_argument, "there is no pass '{}'", name);
  return *found;
}

}  // namespace

void expect_same_outputs(const Model& model, const std::string& pass, int epsilons) {
  const NamedValues inputs = runtime::random_inputs(model, 1);
  SessionOptions without;
  without.without_passes = {pass};
  const RunOptions how{.seed = 0};  // of random operators
  const NamedValues expected = Session(model, without).run(inputs, how), got = Session(model).run(inputs, how);
  for (const auto& [name, value] : expected) {
    const Tensor &have = got.at(name).tensor(), &want = value.tensor();
    if (want.dtype() == DType::f32)
      EXPECT_TRUE(close_to(have, want, Tolerance::epsilons(DType::f32, epsilons))) << name;
    else EXPECT_TRUE(identical(have, want)) << name;
  }
}

void expect_rewritten(const std::string& text, std::string_view pass, const std::vector<std::string>& nodes,
                      int epsilons) {
  SCOPED_TRACE(text);
  EXPECT_EQ(nodes_of(pass_of(pass).run(parsed(text), cpu_pass_context())), nodes);
  expect_same_outputs(Model(std::make_shared<const ir::Graph>(parsed(text))), std::string(pass), epsilons);
}

void expect_left_alone(const std::string& text, std::string_view pass) {
  SCOPED_TRACE(text);
  ir::Graph given = parsed(text), got = pass_of(pass).run(given, cpu_pass_context());
  for (ir::Graph* graph : {&given, &got}) graph->remove_dead_and_compact();
  EXPECT_EQ(ir::print(got), ir::print(given));
}

}  // namespace tessera::test
