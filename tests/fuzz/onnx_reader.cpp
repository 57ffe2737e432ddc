// Bytes → graph → bytes → an equal graph.
#include <algorithm>
#include <set>

#include "io/onnx/reader.h"
#include "io/onnx/upgrade/upgrade.h"
#include "io/onnx/writer.h"
#include "ir/text.h"
#include "ops/core/infer.h"
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

std::optional<std::vector<std::byte>> write(const ir::Graph& graph, std::optional<std::int64_t> opset) {
  try {
    return io::write_model_bytes(graph, opset);
  } catch (const Error&) {
    return std::nullopt;  // an attribute that ONNX has no place for
  }
}

// What the writer may change: values of subgraphs get other names where they would hide those around, graphs without a
// name get one, and the file says anew who wrote it and in which version. What was ignored in reading is not written,
// nor are absent inputs at the end; outputs that ONNX requires are. Shapes of computed values are what is inferred,
// whatever the file declares, and so are all shapes within bodies.
class Normaliser {
 public:
  static ir::Graph normalise(ir::Graph graph) {
    std::erase_if(graph.metadata, [](const auto& entry) {
      return entry.first == "ir_version" || entry.first.starts_with("opset:") || entry.first.starts_with("ignored:");
    });
    graph.metadata.emplace("producer_name", "tessera");
    Normaliser().visit(graph, false);
    return graph;
  }

 private:
  static ir::ValueType without_dims(ir::ValueType type) {
    type.dims.reset();
    if (type.element != nullptr) type.element = std::make_shared<const ir::ValueType>(without_dims(*type.element));
    return type;
  }

  static void drop_absent_inputs(ir::Node& node) {
    while (node.captures == 0 && !node.inputs.empty() && !node.inputs.back().valid()) node.inputs.pop_back();
  }

  // The writer gives names to outputs that ONNX requires though nothing reads them.
  static void drop_unread_outputs(ir::Graph& graph) {
    const std::vector<std::vector<ir::NodeId>> uses = graph.compute_uses();
    for (const ir::NodeId id : graph.order()) {
      std::vector<ir::ValueId>& outputs = graph.node(id).outputs;
      for (ir::ValueId& output : outputs) {
        if (output.valid() && uses[static_cast<std::size_t>(output.index)].empty() && !graph.is_output(output))
          output = ir::ValueId{};
      }
      while (!outputs.empty() && !outputs.back().valid()) outputs.pop_back();
    }
  }

  void visit(ir::Graph& graph, bool rename) {
    if (graph.name.empty()) graph.name = "graph";
    drop_unread_outputs(graph);
    std::set<std::int32_t> seen;
    const auto meet = [&](ir::ValueId id) {
      if (rename && id.valid() && seen.insert(id.index).second) {
        graph.value(id).name = std::to_string(seen.size());
        graph.value(id).type = without_dims(graph.value(id).type);
      }
    };
    std::ranges::for_each(graph.inputs(), meet);
    for (const ir::NodeId id : graph.order()) {
      drop_absent_inputs(graph.node(id));
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

bool infers(ir::Graph graph) {
  try {
    ops::infer_graph(graph);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// The graph, written and read again; nothing when it cannot be written.
std::optional<ir::Graph> round_trip(const ir::Graph& graph, const io::ReadOptions& options,
                                    std::optional<std::int64_t> opset) {
  const std::optional<std::vector<std::byte>> bytes = write(graph, opset);
  if (!bytes) return std::nullopt;
  try {
    return io::read_model_bytes(*bytes, options);
  } catch (const Error& error) {
    if (!infers(graph)) return std::nullopt;  // read without inference, because it has operators that are not supported
    finding(std::string("a model that was read is written as one that is refused: ") + error.what() + "\n" +
            ir::print(graph));
  }
}

void expect_equal(const ir::Graph& graph, const ir::Graph& again) {
  if (!ir::structurally_equal(graph, again))
    finding("what was written reads as another graph.\nread:\n" + ir::print(graph) + "\nread again:\n" +
            ir::print(again));
}

// Whether there is a QuantizeLinear, whose attribute output_dtype the writer replaces by a zero point in every version.
bool quantises(const ir::Graph& graph) {
  return std::ranges::any_of(graph.order(), [&](ir::NodeId id) {
    const ir::Node& node = graph.node(id);
    return node.op == "QuantizeLinear" ||
           std::ranges::any_of(ir::subgraphs_of(node), [](const auto& entry) { return quantises(*entry.second); });
  });
}

// In the newest version, operators are written as they stand. In the file's own version they take other forms, which
// only have to be readable: that they mean the same is tested with values.
void check_round_trip(const ir::Graph& graph, const io::ReadOptions& options) {
  round_trip(graph, options, std::nullopt);
  const std::int64_t newest = io::newest_version("");
  const std::optional<ir::Graph> second = round_trip(graph, options, newest);
  if (!second || !infers(graph)) return;
  if (!quantises(graph)) expect_equal(Normaliser::normalise(graph), Normaliser::normalise(*second));
  // By now there is nothing left to change.
  const std::optional<ir::Graph> third = round_trip(*second, options, newest);
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
