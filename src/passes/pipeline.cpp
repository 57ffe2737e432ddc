#include "passes/pipeline.h"

#include <algorithm>

#include "base/error.h"
#include "ir/verify.h"

namespace tessera::passes {
namespace {

constexpr Pass kPasses[] = {
    {"differentiate", "Gradient nodes become the graph that computes them", differentiate},
    {"sink_constants", "constants that a subgraph captures become its own", sink_constants},
    {"fold_constants", "computes nodes whose inputs are constants, and shapes that are known", fold_constants},
    {"inline_constant_branches", "an If with a known condition becomes its branch", inline_constant_branches},
    {"decompose_composites", "composite operators become the simpler ones that express them", decompose_composites},
    {"remove_no_ops", "removes Identity, inference Dropout, and casts, reshapes and transposes that change nothing", remove_no_ops},
    {"merge_duplicates", "constants with the same bytes and nodes that compute the same from the same become one", merge_duplicates},
    {"fold_channel_arithmetic", "normalisation, sums and products a channel at a time go into the convolution before them", fold_channel_arithmetic},
    {"recognise_activations", "Swish, HardSwish and Gelu that are spelt out become one operator", recognise_activations},
    {"lower_quantised", "layers between DequantizeLinear and QuantizeLinear compute with the integers", lower_quantised, true},
    {"fuse_attention", "attention that is spelt out becomes one node that never stores its scores, with heads where they lie", fuse_attention, true},
    {"channels_last", "convolutions and what stands between them work on data with the channels last", channels_last, true},
    {"fuse_epilogues", "sums and an activation behind a convolution or a product happen in its registers", fuse_epilogues, true},
    {"lower_precision", "layers compute in the precision that the user asked for", lower_precision, true},
};

}  // namespace

std::span<const Pass> all_passes() { return kPasses; }

ir::Graph run_pipeline(ir::Graph graph, const PassContext& given, const PipelineOptions& options, std::vector<PassReport>* reports) {
  FoldingBudget folding = folding_budget(graph, given.folding);
  PassContext context = given;
  context.folding_left = &folding;
  for (const std::string& name : options.without) {
    const bool known = std::any_of(std::begin(kPasses), std::end(kPasses), [&](const Pass& pass) { return pass.name == name; });
    require(known, ErrorKind::invalid_argument, "there is no pass '{}'", name);
  }
  for (const Pass& pass : kPasses) {
    if (std::find(options.without.begin(), options.without.end(), pass.name) != options.without.end()) continue;
    const std::size_t before = graph.node_count();
    graph = pass.run(std::move(graph), context);
#ifdef TESSERA_DEBUG
    ir::verify(graph);
#endif
    if (reports != nullptr) reports->push_back({pass.name, before, graph.node_count()});
  }
  return graph;
}

}  // namespace tessera::passes
