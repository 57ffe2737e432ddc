// Which passes have nothing to do for a plan, known from plans of the same model for other shapes.
//
// The pipeline runs anew for each shape. Most passes leave most graphs as they are, and what they look at is the same
// for nearly all shapes: operators, attributes, constants, and how sizes compare with each other, not the sizes
// themselves. A graph's *pattern* is a hash of just that. A pass that left a graph as it is leaves graphs of the same
// pattern as they are, too, so that it need not run. Passes that weigh or compute with sizes (Pass::weighs_sizes) run
// always. To leave a pass out changes no meaning of a graph in any case.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "ir/graph.h"

namespace tessera::passes {

// Thread-safe.
class PassMemory {
 public:
  // `model`: the graph that all plans start from. Its constants are told by where they are stored; it outlives the
  // memory.
  explicit PassMemory(const ir::Graph& model);

  // Equal for graphs with equal nodes, attributes and constants of the model, whose dimensions, numbers of elements and
  // contents of small integer constants have the same order among each other and beside the numbers in the model.
  std::uint64_t pattern_of(const ir::Graph& graph) const;

  // Equal for graphs with the same nodes on the same values; quicker than a pattern.
  static std::uint64_t structure_of(const ir::Graph& graph);

  // `pass`: its place in the order of passes, less than 64.
  bool is_quiet(std::size_t pass, std::uint64_t pattern) const;
  void note_quiet(std::size_t pass, std::uint64_t pattern);

  // Whether the constant is stored where one of the model's is.
  bool is_of_model(const Tensor& constant) const { return model_constants_.contains(constant.storage()); }

  // How many passes were run and were left out, in all plans.
  std::int64_t run_passes() const { return run_; }
  std::int64_t left_out_passes() const { return left_out_; }
  void count(bool ran) { ++(ran ? run_ : left_out_); }

 private:
  static constexpr std::size_t kMostPatterns = 4096;  // where there are more, all are forgotten

  std::unordered_set<const void*> model_constants_;  // by storage
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::uint64_t> quiet_;  // by pattern: a bit for each pass
  std::atomic<std::int64_t> run_ = 0, left_out_ = 0;
};

}  // namespace tessera::passes
