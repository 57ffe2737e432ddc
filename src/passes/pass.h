// A pass turns a graph into an equal, better graph. One pass a file; pipeline.cpp alone holds the order.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads/stop_signal.h"
#include "cost/machine.h"
#include "ir/graph.h"

namespace tessera::passes {

// Runs one node on constant inputs (an empty Value for an absent one) and returns its outputs. Handed in from above, so
// that passes know no backend. May throw Error.
using Evaluator = std::function<std::vector<Value>(const ir::Node&, std::span<const Value>)>;

// Whether the device that the graph is for has a kernel of its own for this node, mostly a composite, as far as its
// types say.
using CompositeFilter = std::function<bool(const ir::Graph&, const ir::Node&)>;

// What folding may still do to a graph: make constants of so many bytes, by so much work (operations and elements).
// What would be more stays in the graph and is computed in the run, so that a small file cannot ask for much before it
// runs.
struct FoldingBudget {
  std::int64_t bytes = std::int64_t{64} << 20;
  double operations = 1e8;
};

class PassMemory;

struct PassContext {
  Evaluator evaluate;
  CompositeFilter keeps_composite = {};  // null: no composite stays
  bool computes_float16_in_float32 =
      false;  // the device has no kernels for arithmetic with f16 and bf16 that are worth having
  // The machine by which passes weigh moving data against computing.
  cost::Machine machine = {};
  // The graph is for a file: large weights stay in the element type in which they are stored, and are widened in the
  // run.
  bool keeps_narrow_weights = false;
  DType precision = DType::f32;  // what the user lets layers compute in: f32 or bf16
  FoldingBudget folding = {};    // of a run of the pipeline, beside a share of the graph's own constants
  // Set by run_pipeline for its passes, and for the branches in the graph: what is left of that.
  FoldingBudget* folding_left = nullptr;
  // Set by run_pipeline: names of passes that the user leaves out.
  std::span<const std::string> without = {};
  // Set by run_pipeline for fold_constants: all types are as inference leaves them, since nothing else has happened.
  bool types_are_inferred = false;
  PassMemory* memory = nullptr;            // of the model whose plan the graph is for; null: all passes run
  const base::StopSignal* stop = nullptr;  // asked before each pass, and before each node that is computed; null: none

  // Throws Error(cancelled or over_budget) when the passes are to end.
  void check_stop() const {
    if (stop != nullptr) stop->check();
  }
  // Whether the user leaves the pass out. A pass that others call to tidy up behind them does nothing then.
  bool leaves_out(std::string_view pass) const;
};

// The budget with the share of the graph's own constants: work in proportion to the file is no surprise.
FoldingBudget folding_budget(const ir::Graph& graph, FoldingBudget budget);

struct Pass {
  std::string_view name;     // a verb: "fold_constants"
  std::string_view summary;  // one line for people
  ir::Graph (*run)(ir::Graph, const PassContext&);
  bool device_form =
      false;  // what it puts in is for the kernels of some device alone: a graph for other programs is better without
  // What it does depends on sizes themselves (by how much one is larger, what an operator costs), not only on how they
  // compare with each other and with the numbers in the model. It runs for each plan (pass_memory.h).
  bool weighs_sizes = false;
  // Asked about a graph of a pattern that the pass left as it is, whether it does so with this one. Null: it does.
  bool (*stays_quiet)(const ir::Graph&, const PassContext&) = nullptr;
};

ir::Graph differentiate(ir::Graph graph, const PassContext& context);
ir::Graph fuse_training_normalisation(ir::Graph graph, const PassContext& context);
ir::Graph compute_float16_in_float32(ir::Graph graph, const PassContext& context);
ir::Graph decompose_composites(ir::Graph graph, const PassContext& context);
ir::Graph multiply_transforms(ir::Graph graph, const PassContext& context);
ir::Graph multiply_einsums(ir::Graph graph, const PassContext& context);
ir::Graph recognise_distances(ir::Graph graph, const PassContext& context);
ir::Graph spell_out(ir::Graph graph, const PassContext& context);
ir::Graph look_up_stored_rows(ir::Graph graph, const PassContext& context);
ir::Graph fold_constants(ir::Graph graph, const PassContext& context);
ir::Graph fold_shape_arithmetic(ir::Graph graph, const PassContext& context);
ir::Graph remove_no_ops(ir::Graph graph, const PassContext& context);
ir::Graph merge_duplicates(ir::Graph graph, const PassContext& context);
ir::Graph simplify_arithmetic(ir::Graph graph, const PassContext& context);
ir::Graph merge_movement(ir::Graph graph, const PassContext& context);
ir::Graph drop_expansions(ir::Graph graph, const PassContext& context);
ir::Graph look_up_one_hot(ir::Graph graph, const PassContext& context);
ir::Graph fold_into_tables(ir::Graph graph, const PassContext& context);
ir::Graph recognise_softmax(ir::Graph graph, const PassContext& context);
ir::Graph recognise_normalisation(ir::Graph graph, const PassContext& context);
ir::Graph recognise_group_normalisation(ir::Graph graph, const PassContext& context);
ir::Graph absorb_transposes(ir::Graph graph, const PassContext& context);
ir::Graph absorb_padding(ir::Graph graph, const PassContext& context);
ir::Graph drop_padding_taps(ir::Graph graph, const PassContext& context);
ir::Graph capture_invariants(ir::Graph graph, const PassContext& context);
ir::Graph sink_constants(ir::Graph graph, const PassContext& context);
ir::Graph fold_channel_arithmetic(ir::Graph graph, const PassContext& context);
ir::Graph recognise_activations(ir::Graph graph, const PassContext& context);
ir::Graph move_channel_arithmetic(ir::Graph graph, const PassContext& context);
ir::Graph move_crops(ir::Graph graph, const PassContext& context);
ir::Graph merge_crops(ir::Graph graph, const PassContext& context);
ir::Graph lower_quantised(ir::Graph graph, const PassContext& context);
ir::Graph lower_precision(ir::Graph graph, const PassContext& context);
ir::Graph multiply_rounded(ir::Graph graph, const PassContext& context);
ir::Graph fuse_attention(ir::Graph graph, const PassContext& context);
ir::Graph fuse_skip_normalisation(ir::Graph graph, const PassContext& context);
ir::Graph scale_batch_normalisation(ir::Graph graph, const PassContext& context);
ir::Graph fuse_embeddings(ir::Graph graph, const PassContext& context);
ir::Graph channels_last(ir::Graph graph, const PassContext& context);
ir::Graph fuse_element_wise(ir::Graph graph, const PassContext& context);
ir::Graph chain_convolutions(ir::Graph graph, const PassContext& context);
ir::Graph fuse_epilogues(ir::Graph graph, const PassContext& context);
ir::Graph note_dense_weights(ir::Graph graph, const PassContext& context);
ir::Graph inline_constant_branches(ir::Graph graph, const PassContext& context);

}  // namespace tessera::passes
