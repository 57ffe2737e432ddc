// The cost of each degree of obfuscation, and how alike its graphs are to the plain one.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "tessera/export.h"
#include "tessera/obfuscate.h"

namespace tessera {

// How alike the operators and edges of two graphs are, 0 to 1: what someone finds who has one and the file of the
// other.
struct GraphSimilarity {
  // The likeness of the sequences of operators: 1 less the edit distance (insertions, deletions, replacements) by the
  // greater length. Names are compared as they are, so symbols equal no operator.
  double operators = 0;
  // `operators` after each name was replaced by the number of its first place, so that patterns of repetition count.
  double patterns = 0;
  // The share of the first graph's nodes whose surroundings (numbers of operands, of constants among them and of
  // readers, of the node and its neighbours to a distance of two) have a partner in the second graph.
  double subgraphs = 0;
  // The mean of `subgraphs` with graphs of the second one's nodes whose edges were drawn at random: what chance gives.
  double subgraphs_by_chance = 0;
};

struct ObfuscationFigures {
  int degree = 0;  // 0: the package that `optimise` writes
  std::int64_t file_bytes = 0, symbols_bytes = 0;
  double load_seconds = 0;        // loading and the first run
  double run_seconds = 0;         // the median of the runs that follow
  std::int64_t memory_bytes = 0;  // the most that a run has in use, with the model's constants
  GraphSimilarity similarity;     // to the package of degree 0
};

// Writes the model at each degree to a temporary folder and runs the packages in turn, `rounds` times each. Inputs are
// random. `progress` may be null. Throws Error as obfuscate_model and Session do.
TESSERA_API std::vector<ObfuscationFigures> measure_obfuscation(
    const Model& model, std::optional<std::uint64_t> seed = {}, const OptimiseOptions& optimise = {}, int rounds = 20,
    const std::function<void(std::string_view what, double done)>& progress = {});

}  // namespace tessera
