#include "passes/pipeline.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "ir/overridable.h"
#include "ir/verify.h"
#include "ops/values/random_streams.h"
#include "passes/pass_memory.h"
#include "passes/patterns/branches.h"
#include "passes/simplify/decompose_composites.h"

namespace tessera::passes {
namespace {

constexpr Pass kPasses[] = {
    {"differentiate",
     "replaces Gradient nodes by the graph that computes the gradients, which the other passes can then improve",
     differentiate},
    {"fuse_training_normalisation",
     "makes one operator of BatchNormalization by the statistics of the batch and of the sum and the ReLU behind it, "
     "so "
     "that a training step reads each feature map twice",
     fuse_training_normalisation, true},
    {"capture_invariants",
     "captures what a Loop or Scan carries from iteration to iteration without changing it, so that it is not copied",
     capture_invariants},
    {"sink_constants", "copies constants that a subgraph captures into it, so that the passes can work with them there",
     sink_constants},
    {"look_up_stored_rows",
     "looks rows up in tables of int8 and float16 before they are widened, so that the whole table never is",
     look_up_stored_rows, false, true},
    {"fold_constants", "computes nodes whose inputs are constants, and known shapes, once and ahead of the runs",
     fold_constants, false, true},
    {"fold_shape_arithmetic",
     "follows the names of dimensions through shape arithmetic, so that Reshape and the like need not "
     "compute their shapes",
     fold_shape_arithmetic, false, true},
    {"inline_constant_branches",
     "replaces an If with a known condition by its branch, so that other passes see through it",
     inline_constant_branches},
    {"compute_float16_in_float32",
     "computes in f32 what the model computes in f16 and bf16, where the device has no kernels for those types",
     compute_float16_in_float32, true},
    {"decompose_composites", "replaces composite operators without a kernel by the simpler operators that express them",
     decompose_composites, false, false, has_kernels_for_composites},
    {"multiply_transforms",
     "makes products with a constant matrix of Fourier transforms of short lines, which products compute faster",
     multiply_transforms, true, true},
    {"multiply_einsums",
     "makes sums, products of matrices and transposes of Einsum, which kernels of their own compute faster",
     multiply_einsums, true, true},
    {"recognise_distances",
     "makes one operator of the squared distances of all rows from all rows that a Scan computes row by row",
     recognise_distances, true},
    {"remove_no_ops",
     "removes Identity, inference Dropout, and casts, reshapes, transposes, slices and joins that change nothing",
     remove_no_ops},
    {"merge_duplicates",
     "keeps one of several equal constants, and one of several nodes that compute the same from the same inputs",
     merge_duplicates},
    {"simplify_arithmetic",
     "replaces powers by products and roots and division by multiplication, which are cheaper, and "
     "removes arithmetic that changes nothing",
     simplify_arithmetic},
    {"merge_movement",
     "joins reshapes, transposes and casts that follow each other, so that data is moved once or not at all",
     merge_movement},
    {"drop_expansions",
     "removes Expand, Tile and ConstantOfShape where the operator behind them broadcasts, so that no copies are made",
     drop_expansions},
    {"look_up_one_hot", "replaces products of one-hot rows with a constant matrix by a Gather of its rows",
     look_up_one_hot, false, true},
    {"fold_channel_arithmetic",
     "folds normalisation, sums and products per channel into the weights of the convolution or product before them",
     fold_channel_arithmetic},
    {"recognise_activations",
     "replaces Swish, HardSwish, HardSigmoid, Mish and Gelu that are spelt out by one operator, which "
     "reads its input once",
     recognise_activations},
    {"fold_into_tables",
     "applies element-wise operators behind a Gather of constant rows to the rows, once and ahead of the runs",
     fold_into_tables},
    {"recognise_softmax",
     "replaces Softmax and LogSoftmax that are spelt out by one operator, which needs fewer passes over the data",
     recognise_softmax},
    {"recognise_normalisation",
     "replaces LayerNormalization, RMSNormalization and InstanceNormalization that are spelt out by one "
     "operator, which reads each row once or twice",
     recognise_normalisation},
    {"recognise_group_normalisation",
     "replaces a normalisation between reshapes with a scale and a shift per channel by GroupNormalization",
     recognise_group_normalisation},
    {"spell_out",
     "makes simpler operators of Mean, ReduceLogSumExp, LpNormalization, MeanVarianceNormalization and LRN, which "
     "kernels of their own compute faster",
     spell_out, true},
    {"absorb_padding",
     "takes a Pad into the convolution or pooling that reads it, so that the padded tensor is never written",
     absorb_padding},
    {"drop_padding_taps",
     "drops taps of convolutions that read nothing but padding, so that wide dilated windows do less work",
     drop_padding_taps, false, true},
    {"move_channel_arithmetic",
     "multiplies per-channel normalisation, sums and products into the weights of the convolution or product that "
     "reads them, so that they take no step of their own",
     move_channel_arithmetic},
    {"move_crops", "moves Slice and Gather towards the inputs, so that only the used part of a result is computed",
     move_crops, false, true},
    {"lower_quantised",
     "makes integer layers of what stands between DequantizeLinear and QuantizeLinear, and of ConvInteger, so that "
     "products are computed in int8",
     lower_quantised, true},
    {"fuse_attention",
     "makes one node of attention that is spelt out, which never stores its scores and takes the heads "
     "from where they lie",
     fuse_attention, true, true},
    {"absorb_transposes", "lets a product read transposed operands as they lie, so that nothing is copied",
     absorb_transposes, true},
    {"scale_batch_normalisation",
     "replaces BatchNormalization that went into no layer by one product and one sum per channel, which "
     "element-wise loops take up",
     scale_batch_normalisation, true},
    {"channels_last",
     "stores the channels of convolutions, and of what stands between them, last, so that kernels read them in order",
     channels_last, true},
    {"merge_crops", "replaces Slices and Gathers that together take all of a value apart by one Split", merge_crops},
    {"fuse_epilogues",
     "adds sums and an activation to the convolution or product before them, so that its result is not "
     "read and written again",
     fuse_epilogues, true},
    {"multiply_rounded", "lets layers whose data and weights were rounded to bfloat16 multiply the rounded numbers",
     multiply_rounded, true},
    {"fuse_embeddings",
     "makes one operator of the look-up in embedding tables, the sum of the rows and its normalisation, "
     "so that each row is read once",
     fuse_embeddings, true},
    {"fuse_skip_normalisation", "makes one operator of a sum and its normalisation, so that each row is read once",
     fuse_skip_normalisation, true},
    {"fuse_element_wise",
     "makes one loop of element-wise operators that follow each other, so that values between them stay "
     "in registers and cache",
     fuse_element_wise, true},
    {"lower_precision", "lets layers compute in the precision that was asked for", lower_precision, true, true},
    {"chain_convolutions",
     "computes convolutions that follow each other a few lines at a time, so that what lies between them "
     "stays in the cache",
     chain_convolutions, true, true},
    {"note_dense_weights",
     "says of products whose weights are dense that they are, so that nobody reads the weights to find out",
     note_dense_weights, true},
};

using Clock = std::chrono::steady_clock;

static_assert(std::size(kPasses) <= 64, "a memory of passes has a bit for each");

// Leaves out passes that have nothing to do, as learnt from other plans of the model.
class QuietPasses {
 public:
  explicit QuietPasses(const PassContext& context) : context_(context), memory_(context.memory) {}

  bool leaves_out(const Pass& pass, const ir::Graph& graph) {
    if (memory_ == nullptr) return false;
    if (pass.weighs_sizes) {
      structure_ = PassMemory::structure_of(graph);
      return false;
    }
    const bool quiet = memory_->is_quiet(place_of(pass), pattern_of(graph)) &&
                       (pass.stays_quiet == nullptr || pass.stays_quiet(graph, context_));
    if (quiet) memory_->count(false);
    return quiet;
  }
  // `graph`: the result of the pass.
  void learn(const Pass& pass, const ir::Graph& graph) {
    if (memory_ == nullptr) return;
    memory_->count(true);
    // A pass that weighs sizes adds or removes nodes whenever it changes something.
    if (pass.weighs_sizes && structure_ == PassMemory::structure_of(graph)) return;
    const std::optional<std::uint64_t> before = std::exchange(pattern_, std::nullopt);
    if (pass.weighs_sizes || before != pattern_of(graph)) untouched_ = false;
    else memory_->note_quiet(place_of(pass), *before);
  }
  // Whether no pass has changed the graph, as far as is known. Graphs of plans come with inferred types.
  bool untouched() const { return memory_ != nullptr && untouched_; }

 private:
  static std::size_t place_of(const Pass& pass) { return static_cast<std::size_t>(&pass - kPasses); }
  std::uint64_t pattern_of(const ir::Graph& graph) {
    if (!pattern_) pattern_ = memory_->pattern_of(graph);
    return *pattern_;
  }

  const PassContext& context_;
  PassMemory* memory_;
  std::optional<std::uint64_t> pattern_;  // of the current graph, if it was asked for
  std::uint64_t structure_ = 0;           // before a pass that weighs sizes
  bool untouched_ = true;
};

// Records the changes that passes make, in order.
class Recorder {
 public:
  Recorder(const ir::Graph& graph, const GraphMeasure& measure, std::vector<PassChange>& reports)
      : measure_(measure), reports_(reports), now_(look_at(graph)) {}

  void add(std::string_view pass, const ir::Graph& graph, double seconds) {
    State next = look_at(graph);
    const bool costs_as_before = now_.cost.operations == next.cost.operations && now_.cost.bytes == next.cost.bytes &&
                                 now_.cost.seconds == next.cost.seconds;
    reports_.push_back({std::string(pass), now_.nodes, next.nodes, now_.cost, next.cost,
                        now_.operators != next.operators || !costs_as_before, seconds});
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

bool PassContext::leaves_out(std::string_view pass) const {
  return std::ranges::find(without, pass) != without.end();
}

std::span<const Pass> all_passes() {
  return kPasses;
}

ir::Graph run_pipeline(ir::Graph graph, const PassContext& given, const PipelineOptions& options,
                       std::vector<PassChange>* reports) {
  ir::forget_overridable(graph);
  FoldingBudget folding = folding_budget(graph, given.folding);
  PassContext context = given;
  if (context.folding_left == nullptr) context.folding_left = &folding;
  context.without = options.without;
  for (const std::string& name : options.without) {
    const bool known =
        std::any_of(std::begin(kPasses), std::end(kPasses), [&](const Pass& pass) { return pass.name == name; });
    require(known, ErrorKind::invalid_argument, "there is no pass '{}'", name);
  }
  ops::number_random_streams(graph);
  std::optional<Recorder> recorder;
  if (reports != nullptr) recorder.emplace(graph, options.measure, *reports);
  QuietPasses quiet(context);
  for (const Pass& pass : kPasses) {
    context.check_stop();
    const bool left_out = context.leaves_out(pass.name);
    if (options.progress && !left_out)
      options.progress(pass.name, static_cast<double>(&pass - kPasses) / static_cast<double>(std::size(kPasses)));
    const auto start = Clock::now();
    if (!left_out && quiet.leaves_out(pass, graph)) continue;
    context.types_are_inferred = pass.run == fold_constants && quiet.untouched();
    if (!left_out) graph = pass.run(std::move(graph), context);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    // Gradients, which are computed first, refer to tensors that may be unused otherwise.
    if (&pass == kPasses) graph.remove_dead_and_compact();
    if (left_out) continue;
    quiet.learn(pass, graph);
#ifdef TESSERA_DEBUG
    ir::verify(graph);
#endif
    if (recorder) recorder->add(pass.name, graph, seconds);
  }
  if (!options.branches) return graph;
  PipelineOptions inner = options;
  inner.progress = {};
  context.memory = nullptr;
  // Branches share the budget of the whole: many branches may not fold more than one graph.
  return rewrite_branches(std::move(graph),
                          [&](ir::Graph branch) { return run_pipeline(std::move(branch), context, inner); });
}

}  // namespace tessera::passes
