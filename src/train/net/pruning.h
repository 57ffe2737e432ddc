// Magnitude pruning during training: small weights become zero step by step, and masks in the graph keep them zero (Zhu
// and Gupta, arXiv:1710.01878).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "tessera/session.h"
#include "tessera/train.h"

namespace tessera::io {
class TomlTable;
}

namespace tessera::train {

// Reads the table [prune] of a configuration. Throws Error(invalid_argument).
PruneOptions read_prune(io::TomlTable table);

// The name of a parameter's mask: a variable of bool with the parameter's shape, false where the weight is zero.
std::string mask_of(const std::string& parameter);

// Adds masks of these parameters, all true, to a training step: the updates of the parameters and of their moving
// averages become zero where the mask is false.
void add_masks(ir::Graph& step, const std::vector<std::string>& parameters);

// The target fraction of zeros at a step: final + (initial − final) · (1 − t)³ for t from 0 at `begin` to 1 at `end`
// (arXiv:1710.01878, equation 1); 0 before `begin`.
double scheduled_sparsity(double initial, double final, std::int64_t begin, std::int64_t end, std::int64_t step);

// Sets the masks of a session as the options say. The result depends on the step and on the session's variables alone,
// so that a resumed training prunes the same weights.
class Pruner {
 public:
  // `parameters` are those of the step; `steps` is the length of the training. Throws Error(invalid_argument) if a
  // pattern matches no weight, if weights do not fit the structure, or if nothing is left to prune.
  Pruner(const ir::Graph& model, const std::vector<std::string>& parameters, PruneOptions options, std::int64_t steps);

  // The names of the parameters that are pruned.
  std::vector<std::string> parameters() const;
  // Whether the weights have reached their final sparsity after `step` steps.
  bool is_complete(std::int64_t step) const { return options_.keep_zeros ? step > 0 : step > options_.end_step; }
  // To be called before each step. If new masks are due, sets masks, weights and averages.
  void before_step(std::int64_t step, Session& session) const;

 private:
  struct Layer {
    std::string name;
    std::int64_t input_axis = 0;
    double sparsity = 0;  // the final one
  };

  bool is_due(std::int64_t step) const;
  std::vector<Tensor> masks_at(std::int64_t step, const std::vector<Tensor>& weights) const;

  PruneOptions options_;
  std::vector<Layer> layers_;
};

}  // namespace tessera::train
