#include "train/net/prepared_model.h"

#include <array>
#include <string>

#include "passes/pass.h"
#include "passes/simplify/unpack_sequences.h"
#include "train/net/lift_weights.h"
#include "train/net/modes.h"
#include "train/net/untrained.h"

namespace tessera::train {
namespace {

using ir::ValueId;

bool has_sequences(const ir::Graph& graph) {
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    if (!graph.value(ValueId{static_cast<std::int32_t>(i)}).type.is_tensor()) return true;
  }
  return false;
}

// The model with tensors in place of sequences, and with everything computed that does not depend on weights: masks,
// settings of operators, and shapes that exporters compute from those of their inputs, without which gradients do not
// know the sizes that they need.
ir::Graph compute_known(ir::Graph graph, const WeightPatterns& patterns) {
  // Folding the constants behind a shape would also fold weights, such as transposed ones.
  const std::array<std::string, 1> left_out = {"fold_constants"};
  graph = passes::fold_shape_arithmetic(std::move(graph), {.evaluate = {}, .without = left_out});
  graph = compute_untrained(std::move(graph), patterns);
  if (!has_sequences(graph)) return graph;
  return compute_untrained(passes::unpack_sequences(std::move(graph)), patterns);
}

// The model in training or inference form, with weights moved out of the bodies of loops. Values whose names belong to
// the step's outputs are renamed.
ir::Graph in_mode(ir::Graph graph, const TrainingGraphOptions& options, bool trains) {
  graph = lift_weights(inference_form(std::move(graph)));
  if (trains) train_dropout(graph, options.dropout);
  for (const char* name : {"loss", "gradient_norm", "skipped"}) {
    const ValueId value = graph.find_value(name);
    if (value.valid() && graph.value(value).origin == ir::Origin::node)
      graph.value(value).name = graph.fresh_name(name);
  }
  return graph;
}

// Fuses attention into one node, whose gradient stores no scores. Products that are to be rounded are not fused.
ir::Graph fuse_attention(ir::Graph graph, const TrainingGraphOptions& options) {
  if (!options.fuse_attention || options.precision != DType::f32) return graph;
  return passes::fuse_attention(std::move(graph),
                                {.evaluate = {}, .keeps_composite = [](const auto&, const auto&) { return true; }});
}

}  // namespace

ir::Graph prepared_model(ir::Graph model, const TrainingGraphOptions& options, bool trains) {
  model = in_mode(std::move(model), options, trains);
  return fuse_attention(compute_known(std::move(model), {options.frozen, options.trained}), options);
}

}  // namespace tessera::train
