// A pass turns a graph into an equivalent, better graph. Each pass has its own file; pipeline.cpp alone holds the
// order.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads/stop_signal.h"
#include "cost/machine.h"
#include "ir/graph.h"

namespace tessera::passes {

// Runs one node on constant inputs (an empty Value for an absent one) and returns its outputs. The caller of the passes
// provides it, so that passes know no backend. May throw Error.
using Evaluator = std::function<std::vector<Value>(const ir::Node&, std::span<const Value>)>;

// Whether the device has a kernel of its own for this node, usually a composite, judged by the types of its operands.
using CompositeFilter = std::function<bool(const ir::Graph&, const ir::Node&)>;

// The limits for folding: bytes of the constants made, and work (operations and elements) to compute them. Nodes beyond
// the budget stay in the graph and are computed in the run, so that a small file cannot ask for much memory or time
// before it runs.
struct FoldingBudget {
  std::int64_t bytes = std::int64_t{64} << 20;
  double operations = 1e8;
};

class PassMemory;

// The facts that the decisions of passes about one graph rested on, beside how its sizes compare with each other and
// with the numbers in the model.
struct SizeNotes {
  bool weighed = false;               // costs or amounts: the decisions hold for these sizes alone
  std::set<std::int64_t> thresholds;  // numbers of a pass's own that sizes were compared with
};

struct PassContext {
  Evaluator evaluate;
  CompositeFilter keeps_composite = {};      // null: all composites are decomposed
  bool computes_float16_in_float32 = false;  // the device has no efficient float16 and bfloat16 arithmetic
  // The machine by whose speeds passes weigh moving data against computing.
  cost::Machine machine = {};
  // The graph is written to a file: large weights keep the element type in which they are stored and are widened in the
  // run.
  bool keeps_narrow_weights = false;
  DType precision = DType::f32;  // the lowest precision in which layers may compute: f32 or bf16
  FoldingBudget folding = {};    // for one run of the pipeline, in addition to a share of the graph's own constants
  // The unused part of the budget. Set by run_pipeline for its passes, which share it with branches of the graph.
  FoldingBudget* folding_left = nullptr;
  // Names of passes to leave out. Set by run_pipeline from the user's options.
  std::span<const std::string> without = {};
  // Set by run_pipeline for fold_constants: all types are as inference made them, because no pass has run yet.
  bool types_are_inferred = false;
  PassMemory* memory = nullptr;            // of the model whose plan the graph is for; null: all passes run
  SizeNotes* size_notes = nullptr;         // what passes that weigh sizes write down; null: nobody asks
  const base::StopSignal* stop = nullptr;  // asked before each pass, and before each node that is computed; null: none

  // To be called by a pass before it decides by costs or amounts, and before it compares a size with a number of its
  // own.
  void note_weighing() const {
    if (size_notes != nullptr) size_notes->weighed = true;
  }
  void note_threshold(std::int64_t number) const {
    if (size_notes != nullptr) size_notes->thresholds.insert(number);
  }

  // Throws Error(cancelled or over_budget) when the passes must stop.
  void check_stop() const {
    if (stop != nullptr) stop->check();
  }
  // Whether the user leaves the pass out. A pass that others call to clean up after them does nothing in that case.
  bool leaves_out(std::string_view pass) const;
};

// The budget plus the share of the graph's own constants: work in proportion to the size of the file is acceptable.
FoldingBudget folding_budget(const ir::Graph& graph, FoldingBudget budget);

struct Pass {
  std::string_view name;     // a verb: "fold_constants"
  std::string_view summary;  // one line for people
  ir::Graph (*run)(ir::Graph, const PassContext&);
  bool device_form = false;  // the result is for kernels of some devices: graphs for other programs leave it out
  // The result depends on sizes themselves (a difference of sizes, the cost of an operator), not only on how sizes
  // compare with each other and with numbers in the model. Such a pass runs for each plan (pass_memory.h).
  bool weighs_sizes = false;
  // Whether the pass leaves this graph unchanged too, if it left another graph of the same pattern unchanged
  // (pass_memory.h). Null: always.
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
