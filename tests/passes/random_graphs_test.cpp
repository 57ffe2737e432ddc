// The property that every pass must keep: whatever the graph, the optimised one computes the same. Small random graphs,
// on device "cpu" with all passes and with some of them off, against the reference. TESSERA_SLOW_TESTS runs 2,000 of
// them, TESSERA_FIRST_SEED=N others.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>

#include "base/numbers/philox.h"
#include "ir/verify.h"
#include "ops/core/infer.h"
#include "passes/pipeline.h"
#include "support/evaluate_graph.h"
#include "support/pass_context.h"
#include "support/random_graph.h"
#include "support/shrink_graph.h"

namespace tessera::test::random_graphs_test {
namespace {

constexpr int kChunks = 8;

std::uint64_t first_seed() {
  const char* given = std::getenv("TESSERA_FIRST_SEED");
  return given == nullptr ? 1 : std::strtoull(given, nullptr, 10);
}

std::vector<std::string> names_of_passes() {
  std::vector<std::string> names;
  for (const passes::Pass& pass : passes::all_passes()) names.emplace_back(pass.name);
  return names;
}

// How the run of a graph parts from the expected values; empty: it does not.
std::string difference(const GraphCase& made, const std::vector<Value>& expected, const std::vector<double>& bounds,
                       const SessionOptions& options, const ir::Graph& ran) {
  NamedValues got;
  try {
    got = Session(Model(std::make_shared<const ir::Graph>(ran)), options).run(made.inputs);
  } catch (const std::exception& error) {
    return fmt::format("throws: {}", error.what());
  }
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    const ir::ValueId id = made.graph.outputs()[i];
    const Tensor &wanted = expected[static_cast<std::size_t>(id.index)].tensor(),
                 &found = got.find(made.graph.value(id).name)->second.tensor();
    if (found.dtype() != wanted.dtype() || found.shape() != wanted.shape())
      return fmt::format("output '{}' is {}{}, expected {}{}", made.graph.value(id).name, name_of(found.dtype()),
                         to_string(found.shape()), name_of(wanted.dtype()), to_string(wanted.shape()));
    const Tensor expected_numbers = widened(wanted), found_numbers = widened(found);
    if (expected_numbers.dtype() != DType::f32) {
      if (!identical(found, wanted))
        return fmt::format("output '{}' of {} differs", made.graph.value(id).name, name_of(wanted.dtype()));
      continue;
    }
    for (std::int64_t k = 0; k < wanted.elements(); ++k) {
      const double a = found_numbers.data<float>()[k], b = expected_numbers.data<float>()[k];
      if (!(std::fabs(a - b) <= bounds[i]))
        return fmt::format("output '{}'[{}] is {}, expected {} within {}", made.graph.value(id).name, k, a, b,
                           bounds[i]);
    }
  }
  return "";
}

std::string difference(const GraphCase& made, const SessionOptions& options) {
  const std::vector<Value> expected = evaluate_graph(made.graph, made.inputs);
  return difference(made, expected, rounding_bounds(made.graph, made.inputs, expected), options, made.graph);
}

// What a pass, alone on a graph, breaks of the rules of graphs.
std::string broken_rule(const GraphCase& made, const std::string& pass) {
  passes::PipelineOptions alone{names_of_passes()};
  std::erase(alone.without, pass);
  try {
    ir::Graph graph = passes::run_pipeline(made.graph, cpu_pass_context(), alone);
    ir::verify(graph);
    ops::infer_graph(graph);
  } catch (const std::exception& error) {
    return fmt::format("after {} alone: {}", pass, error.what());
  }
  return "";
}

// Passes that weigh bytes, as if nothing of these small graphs stayed in a cache.
passes::PassContext without_caches() {
  passes::PassContext context = cpu_pass_context();
  context.machine.near_cache_bytes = 0;
  return context;
}

std::string difference_without_caches(const GraphCase& made) {
  const std::vector<Value> expected = evaluate_graph(made.graph, made.inputs);
  return difference(made, expected, rounding_bounds(made.graph, made.inputs, expected), {.device = "cpu"},
                    passes::run_pipeline(made.graph, without_caches(), {}));
}

// A fault of one graph, if it has one: how to see it again, and what it says.
struct Fault {
  std::function<std::string(const GraphCase&)> look;
  std::string message;
};

std::optional<Fault> find_fault(const GraphCase& made, base::Philox& random) {
  std::vector<std::function<std::string(const GraphCase&)>> looks{
      [](const GraphCase& each) {
        return difference(each, {.device = "reference", .without_passes = names_of_passes()});
      },
      [](const GraphCase& each) { return difference(each, {.device = "cpu"}); },
      difference_without_caches,
  };
  const std::vector<std::string> names = names_of_passes();
  // decompose_composites is what lets a device run what it has no kernel for: without it, it may rightly refuse.
  std::vector<std::string> optional = names;
  std::erase(optional, "decompose_composites");
  for (int i = 0; i < 2; ++i) {
    const std::string name =
        optional[static_cast<std::size_t>(random.next_integer(0, static_cast<std::int64_t>(optional.size()) - 1))];
    looks.push_back([name](const GraphCase& each) {
      const std::string found = difference(each, {.device = "cpu", .without_passes = {name}});
      return found.empty() ? found : fmt::format("without {}: {}", name, found);
    });
  }
  for (const std::string& name : names)
    looks.push_back([name](const GraphCase& each) { return broken_rule(each, name); });
  for (const auto& look : looks) {
    if (const std::string message = look(made); !message.empty()) return Fault{look, message};
  }
  return std::nullopt;
}

class RandomGraphs : public testing::TestWithParam<int> {};

TEST_P(RandomGraphs, ComputeTheSameWithPassesOnAndOff) {
  const int count = (std::getenv("TESSERA_SLOW_TESTS") != nullptr ? 2000 : 48) / kChunks;
  int faults = 0;
  for (int i = 0; i < count && faults < 3; ++i) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(GetParam() * count + i);
    const GraphCase made = random_graph(seed, 6 + static_cast<int>(seed % 20));
    base::Philox random(seed, 1);
    const std::optional<Fault> fault = find_fault(made, random);
    if (!fault) continue;
    ++faults;
    const GraphCase small = shrink(made, [&](const GraphCase& each) { return !fault->look(each).empty(); });
    ADD_FAILURE() << "seed " << seed << ": " << fault->message << "\nas small as it gets: " << fault->look(small)
                  << "\n"
                  << describe(small);
  }
}

INSTANTIATE_TEST_SUITE_P(Chunk, RandomGraphs, testing::Range(0, kChunks));

TEST(RandomGraph, RepeatsFromItsSeedAndCoversOperators) {
  std::map<std::string, int> counts;
  int symbolic = 0;
  for (std::uint64_t seed = 1; seed <= 160; ++seed) {
    const GraphCase made = random_graph(seed, 8);
    if (seed == 1) {
      EXPECT_EQ(describe(made), describe(random_graph(seed, 8)));
    }
    for (const ir::NodeId id : made.graph.order()) ++counts[made.graph.node(id).op];
    symbolic += made.graph.value(made.graph.inputs()[0]).type.shape() ? 0 : 1;
  }
  EXPECT_GT(symbolic, 5);
  for (const char* op : {"Conv",
                         "ConvTranspose",
                         "MaxPool",
                         "AveragePool",
                         "MatMul",
                         "Gemm",
                         "BatchNormalization",
                         "LayerNormalization",
                         "Softmax",
                         "Concat",
                         "Split",
                         "Slice",
                         "Gather",
                         "Pad",
                         "Transpose",
                         "Reshape",
                         "Shape",
                         "Squeeze",
                         "Unsqueeze",
                         "ReduceMean",
                         "Cast",
                         "Where",
                         "Clip",
                         "QuantizeLinear"}) {
    EXPECT_GT(counts[op], 0) << op;
  }
}

// What no pass finds in random graphs, no random graph tests.
TEST(RandomGraph, GivesPassesSomethingToDo) {
  std::map<std::string, int> changed;
  // Some passes change what nodes read and none of their operators: windows become smaller.
  passes::PipelineOptions options;
  options.measure = [](const ir::Graph& graph) {
    GraphCost cost;
    for (const ir::NodeId id : graph.order()) {
      for (const ir::ValueId input : graph.node(id).inputs) {
        if (const Tensor* constant = graph.constant(input)) cost.bytes += static_cast<double>(constant->bytes());
      }
    }
    return cost;
  };
  for (std::uint64_t seed = 1; seed <= 160; ++seed) {
    std::vector<PassChange> reports;
    passes::run_pipeline(random_graph(seed, 16).graph, without_caches(), options, &reports);
    for (const PassChange& report : reports) changed[report.pass] += report.changed ? 1 : 0;
  }
  // Training, subgraphs, lower precision, transforms and many channels are not for these graphs; nor are composites
  // that every device takes apart. What products say of their weights changes no operator.
  for (const char* other : {"differentiate", "fuse_training_normalisation", "capture_invariants", "sink_constants",
                            "inline_constant_branches", "decompose_composites", "multiply_transforms",
                            "multiply_einsums", "recognise_distances", "spell_out", "note_dense_weights",
                            "lower_precision", "multiply_rounded", "scale_batch_normalisation"})
    changed.erase(other);
  for (const auto& [pass, count] : changed) EXPECT_GT(count, 0) << pass;
}

// A "pass" that turns every Sub around.
ir::Graph turn_differences(ir::Graph graph) {
  for (const ir::NodeId id : graph.order()) {
    ir::Node& node = graph.node(id);
    if (node.op == "Sub") std::swap(node.inputs[0], node.inputs[1]);
  }
  return graph;
}

TEST(Shrink, LeavesTheFaultAlone) {
  const ShowsFault shows = [](const GraphCase& each) {
    const std::vector<Value> expected = evaluate_graph(each.graph, each.inputs);
    return !difference(each, expected, rounding_bounds(each.graph, each.inputs, expected),
                       {.device = "reference", .without_passes = names_of_passes()}, turn_differences(each.graph))
                .empty();
  };
  int shrunk = 0;
  for (std::uint64_t seed = 1; seed <= 200 && shrunk < 3; ++seed) {
    const GraphCase made = random_graph(seed, 20);
    if (!shows(made)) continue;
    ++shrunk;
    const GraphCase small = shrink(made, shows);
    EXPECT_TRUE(shows(small));
    ASSERT_EQ(small.graph.node_count(), 1u) << describe(small);
    EXPECT_EQ(small.graph.node(small.graph.order()[0]).op, "Sub");
    for (const auto& [name, value] : small.inputs) EXPECT_LE(value.tensor().elements(), 8) << describe(small);
  }
  EXPECT_EQ(shrunk, 3);
}

}  // namespace
}  // namespace tessera::test::random_graphs_test
