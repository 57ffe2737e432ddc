#include "passes/pipeline.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "ir/verify.h"
#include "passes/branches.h"

namespace tessera::passes {
namespace {

constexpr Pass kPasses[] = {
    {"differentiate", "Gradient nodes become the graph that computes them", differentiate},
    {"sink_constants", "constants that a subgraph captures become its own", sink_constants},
    {"look_up_stored_rows", "rows of large tables of bytes and halves are looked up before they are widened", look_up_stored_rows},
    {"fold_constants", "computes nodes whose inputs are constants, and shapes that are known", fold_constants},
    {"fold_shape_arithmetic", "shapes that are computed from names of dimensions become constants, and copies of the dimensions that stay", fold_shape_arithmetic},
    {"inline_constant_branches", "an If with a known condition becomes its branch", inline_constant_branches},
    {"widen_halves", "arithmetic with f16 and bf16 becomes arithmetic with f32, where the device knows no halves", widen_halves, true},
    {"decompose_composites", "composite operators become the simpler ones that express them", decompose_composites},
    {"remove_no_ops", "removes Identity, inference Dropout, and casts, reshapes, transposes, slices and joins that change nothing", remove_no_ops},
    {"merge_duplicates", "constants with the same bytes and nodes that compute the same from the same become one", merge_duplicates},
    {"simplify_arithmetic", "powers become products and roots, division by constants multiplication, and arithmetic that changes nothing goes", simplify_arithmetic},
    {"merge_movement", "reshapes, transposes and casts that follow each other become one, or none", merge_movement},
    {"drop_expansions", "Expand, Tile and ConstantOfShape go where the operator behind them broadcasts by itself", drop_expansions},
    {"look_up_one_hot", "products of one-hot rows with a constant matrix gather its rows", look_up_one_hot},
    {"fold_channel_arithmetic", "normalisation, sums and products a channel at a time go into the convolution or product before them", fold_channel_arithmetic},
    {"recognise_activations", "Swish, HardSwish, HardSigmoid, Mish and Gelu that are spelt out become one operator", recognise_activations},
    {"fold_into_tables", "element-wise operators behind a Gather of constant rows happen to the rows beforehand", fold_into_tables},
    {"recognise_softmax", "Softmax and LogSoftmax that are spelt out become one operator", recognise_softmax},
    {"recognise_normalisation", "LayerNormalization, RMSNormalization and InstanceNormalization that are spelt out become one operator", recognise_normalisation},
    {"recognise_group_normalisation", "a normalisation between reshapes with a scale and a shift a channel becomes GroupNormalization", recognise_group_normalisation},
    {"absorb_padding", "Pad goes into the convolution or pooling behind it", absorb_padding},
    {"drop_padding_taps", "taps of convolutions that read nothing but padding leave the window", drop_padding_taps},
    {"move_channel_arithmetic", "normalisation, sums and products a channel at a time go into the convolution or product behind them", move_channel_arithmetic},
    {"move_crops", "where only part of a result is used, only that part, and what it needs, is computed", move_crops},
    {"lower_quantised", "layers between DequantizeLinear and QuantizeLinear compute with the integers", lower_quantised, true},
    {"fuse_attention", "attention that is spelt out becomes one node that never stores its scores, with heads where they lie", fuse_attention, true},
    {"absorb_transposes", "a product reads operands that were transposed as they lie", absorb_transposes, true},
    {"scale_batch_normalisation", "normalisation by known statistics that went into no layer becomes one product and one sum a channel", scale_batch_normalisation, true},
    {"channels_last", "convolutions and what stands between them work on data with the channels last", channels_last, true},
    {"merge_crops", "Slices and Gathers that together take all of a value apart become one Split", merge_crops},
    {"fuse_epilogues", "sums and an activation behind a convolution or a product happen in its registers", fuse_epilogues, true},
    {"fuse_embeddings", "rows of embedding tables, their sum and the normalisation of it become one operator", fuse_embeddings, true},
    {"fuse_skip_normalisation", "a sum and the normalisation of it read each row once", fuse_skip_normalisation, true},
    {"fuse_element_wise", "chains and small graphs of element-wise operators become one loop over their elements", fuse_element_wise, true},
    {"lower_precision", "layers compute in the precision that the user asked for", lower_precision, true},
    {"chain_convolutions", "convolutions that follow each other compute a few lines at a time, and what lies between them stays in the cache", chain_convolutions, true},
};

// Writes down what passes change, one after the other.
class Recorder {
 public:
  Recorder(const ir::Graph& graph, const GraphMeasure& measure, std::vector<PassChange>& reports) : measure_(measure), reports_(reports), now_(look_at(graph)) {}

  void add(std::string_view pass, const ir::Graph& graph) {
    State next = look_at(graph);
    const bool costs_as_before = now_.cost.operations == next.cost.operations && now_.cost.bytes == next.cost.bytes && now_.cost.seconds == next.cost.seconds;
    reports_.push_back({std::string(pass), now_.nodes, next.nodes, now_.cost, next.cost, now_.operators != next.operators || !costs_as_before});
    now_ = std::move(next);
  }

 private:
  struct State {
    std::int64_t nodes = 0;
    GraphCost cost;
    std::map<std::string, std::int64_t> operators;
  };

  State look_at(const ir::Graph& graph) const {
    State state{static_cast<std::int64_t>(graph.node_count()), measure_ ? measure_(graph) : GraphCost{}, {}};
    for (const ir::NodeId id : graph.order()) ++state.operators[graph.node(id).op];
    return state;
  }

  const GraphMeasure& measure_;
  std::vector<PassChange>& reports_;
  State now_;
};

}  // namespace

std::span<const Pass> all_passes() { return kPasses; }

ir::Graph run_pipeline(ir::Graph graph, const PassContext& given, const PipelineOptions& options, std::vector<PassChange>* reports) {
  FoldingBudget folding = folding_budget(graph, given.folding);
  PassContext context = given;
  if (context.folding_left == nullptr) context.folding_left = &folding;
  for (const std::string& name : options.without) {
    const bool known = std::any_of(std::begin(kPasses), std::end(kPasses), [&](const Pass& pass) { return pass.name == name; });
    require(known, ErrorKind::invalid_argument, "there is no pass '{}'", name);
  }
  std::optional<Recorder> recorder;
  if (reports != nullptr) recorder.emplace(graph, options.measure, *reports);
  for (const Pass& pass : kPasses) {
    const bool left_out = std::ranges::find(options.without, pass.name) != options.without.end();
    if (!left_out) graph = pass.run(std::move(graph), context);
    // Gradients, which are computed first, name tensors that nothing else may need.
    if (&pass == kPasses) graph.remove_dead_and_compact();
    if (left_out) continue;
#ifdef TESSERA_DEBUG
    ir::verify(graph);
#endif
    if (recorder) recorder->add(pass.name, graph);
  }
  if (!options.branches) return graph;
  // On the budget of the whole: many branches may not fold more than one graph.
  return rewrite_branches(std::move(graph), [&](ir::Graph branch) { return run_pipeline(std::move(branch), context, options); });
}

}  // namespace tessera::passes
