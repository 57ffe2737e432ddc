// Bytes → graph → bytes → an equal graph.
#include "io/onnx/reader.h"

#include <algorithm>
#include <set>

#include "io/onnx/writer.h"
#include "ir/text.h"
#include "target.h"
#include "tessera/error.h"

namespace tessera::fuzz {
namespace {

std::optional<ir::Graph> read(std::span<const std::byte> input, const io::ReadOptions& options) {
  try {
    return io::read_model_bytes(input, options);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<std::vector<std::byte>> write(const ir::Graph& graph) {
  try {
    return io::write_model_bytes(graph);
  } catch (const Error&) {
    return std::nullopt;  // an attribute that ONNX has no place for
  }
}

// What the writer may change: values of subgraphs get other names where they would hide those around, graphs without a name get
// one, and the file says anew who wrote it and in which version. What was ignored in reading is not written.
class Normaliser {
 public:
  static ir::Graph normalise(ir::Graph graph) {
    std::erase_if(graph.metadata, [](const auto& entry) { return entry.first == "ir_version" || entry.first.starts_with("opset:") || entry.first.starts_with("ignored:"); });
    graph.metadata.emplace("producer_name", "tessera");
    Normaliser().visit(graph, false);
    return graph;
  }

 private:
  void visit(ir::Graph& graph, bool rename) {
    if (graph.name.empty()) graph.name = "graph";
    std::set<std::int32_t> seen;
    const auto meet = [&](ir::ValueId id) {
      if (rename && id.valid() && seen.insert(id.index).second) graph.value(id).name = std::to_string(seen.size());
    };
    std::ranges::for_each(graph.inputs(), meet);
    for (const ir::NodeId id : graph.order()) {
      std::ranges::for_each(graph.node(id).inputs, meet);
      std::ranges::for_each(graph.node(id).outputs, meet);
      for (auto& [name, attribute] : graph.node(id).attributes) {
        auto* subgraph = std::get_if<ir::SubgraphPointer>(&attribute);
        if (subgraph == nullptr) continue;
        ir::Graph copy = **subgraph;
        visit(copy, true);
        *subgraph = std::make_shared<const ir::Graph>(std::move(copy));
      }
    }
    std::ranges::for_each(graph.outputs(), meet);
    if (rename) graph.remove_dead_and_compact();  // constants that nothing uses have no place in the order
  }
};

// The graph, written and read again; nothing when it cannot be written.
std::optional<ir::Graph> round_trip(const ir::Graph& graph, const io::ReadOptions& options) {
  const std::optional<std::vector<std::byte>> bytes = write(graph);
  if (!bytes) return std::nullopt;
  try {
    return io::read_model_bytes(*bytes, options);
  } catch (const Error& error) {
    finding(std::string("a model that was read is written as one that is refused: ") + error.what() + "\n" + ir::print(graph));
  }
}

void expect_equal(const ir::Graph& graph, const ir::Graph& again) {
  if (!ir::structurally_equal(graph, again)) finding("what was written reads as another graph.\nread:\n" + ir::print(graph) + "\nread again:\n" + ir::print(again));
}

void check_round_trip(const ir::Graph& graph, const io::ReadOptions& options) {
  const std::optional<ir::Graph> second = round_trip(graph, options);
  if (!second) return;
  expect_equal(Normaliser::normalise(graph), Normaliser::normalise(*second));
  // By now there is nothing left to change.
  const std::optional<ir::Graph> third = round_trip(*second, options);
  if (third) expect_equal(*second, *third);
}

}  // namespace

void onnx_reader(std::span<const std::byte> input) {
  for (const bool require_supported : {true, false}) {
    io::ReadOptions options;
    options.require_supported = require_supported;
    const std::optional<ir::Graph> graph = read(input, options);
    if (graph) check_round_trip(*graph, options);
  }
}

}  // namespace tessera::fuzz
