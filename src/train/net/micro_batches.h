// The parts of a training step that look at all micro-batches of an update, wherever they run: the sums of gradients,
// and the losses and batch statistics of each micro-batch (ADR 0096). A step without accumulation has one micro-batch
// and needs none of this.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ops/core/gradient.h"
#include "ops/training/micro_batch_sums.h"
#include "train/net/batch_norm.h"
#include "train/net/optimiser_graph.h"

namespace tessera::train {

// Which rank this process is, of how many, and their communicator (base/communicator.h).
struct RankShare {
  std::int64_t rank = 0, ranks = 1, communicator = 0;
};

class MicroBatchGraph {
 public:
  // `total` micro-batches make an update, and every rank runs a block of them (base::SumBlock). Adds the variable
  // train/run if that block has more than one.
  MicroBatchGraph(ops::GraphBuilder& builder, std::int64_t total, const RankShare& share);

  // Whether this run performs the update; nothing if every run does.
  const std::optional<ops::Term>& last() const { return last_; }

  // Turns the gradients into those summed over all micro-batches, in the last run of an update; elsewhere into zeros.
  void sum_gradients(TrainedParameters& trained);

  // Lets `next` of each statistic be what the batch adds to it, without the running value: the nodes that make it read
  // zeros. Must be called before gather_rows().
  void separate_statistics(const std::vector<RunningStatistic>& statistics);
  // Gathers the loss and the statistics of all micro-batches of the update.
  void gather_rows(ops::Term loss);
  // The losses of all micro-batches, [total]: zeros except in the last run.
  ops::Term losses() const { return *losses_; }
  // The value of a statistic after all micro-batches of the update, in their order; `i` counts separate_statistics.
  ops::Term folded(std::size_t i) const;

 private:
  struct Statistic {
    ops::Term value, part;  // the running value, and (1 - momentum) times the batch's
    double momentum;
    std::int64_t elements, column;
  };
  ir::Attributes attributes(const std::string& exchange) const;
  ops::Term whole(std::int64_t value) const;
  std::vector<std::vector<std::size_t>> buckets(const TrainedParameters& trained) const;

  ops::GraphBuilder& builder_;
  const ops::MicroBatches batches_;
  const std::int64_t communicator_;
  const base::SumBlock block_;
  std::optional<ops::Term> run_, last_, rows_, losses_;
  std::vector<Statistic> statistics_;
};

// Whether the variable only holds what an update has so far, and is of no use between two updates: checkpoints leave it
// out, so that they do not depend on the number of ranks.
bool is_within_update(const std::string& variable);

}  // namespace tessera::train
