// Batches ahead of use: samples are read and transformed on worker threads while the model computes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/tensor.h"
#include "train/data/dataset.h"
#include "train/data/transform.h"

namespace tessera::train {

struct LoaderOptions {
  std::int64_t batch = 32;  // samples
  bool shuffle = true;
  std::uint64_t seed = 0;
  bool drop_last = true;  // leave out the samples of an epoch that are too few for a batch
  // Whether another sample of the data, drawn at random, takes the place of one that cannot be read; else the batch is
  // smaller, and may be empty. Samples that are known to be unreadable (Dataset::unreadable) have no place at all.
  bool replace_unreadable = true;
  int workers = 2;  // threads; 0: the thread that calls next()
  // Input batch multiplier: a worker makes so many batches at a time.
  std::int64_t batch_multiplier = 1;
  // Batches that are made ahead of use hold about so many bytes at most (two of them are always allowed).
  std::int64_t max_ahead_bytes = std::int64_t{256} << 20;
  // Above 0: each picture x becomes λ x + (1 − λ) x' with another one of its batch and λ drawn from Beta(mixup, mixup);
  // the fields y_mixed (the other one's label) and mix (λ, f32) tell of it. Zhang et al., arXiv:1710.09412.
  double mixup = 0;
  // One for each sample: an epoch's samples are drawn with replacement in proportion to them (data/sampler.h). Empty:
  // an epoch has each sample once.
  std::vector<double> weights;
};

// Where a loader stands: `batch` batches of epoch `epoch` were handed out.
struct DataPosition {
  std::int64_t epoch = 0, batch = 0;
  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

struct Batch {
  std::map<std::string, Tensor> fields;  // [samples, shape of the field...]
  std::int64_t samples = 0;
  std::vector<std::int64_t> indices;  // of the samples in their source
  DataPosition position;              // before it
  bool ends_epoch = false;            // the next one belongs to the next epoch
};

struct LoaderReport {
  std::int64_t samples = 0;          // handed out
  std::int64_t skipped = 0;          // different samples that could not be read
  std::vector<std::string> reasons;  // of the first of them: "cats/3.png: …"
  std::int64_t waited_ns = 0;        // that next() waited for data
  std::int64_t ahead_bytes = 0;      // held by batches that are ready or being made
};

// The batches of one data set, endlessly: epoch after epoch. What is in them depends on the options' seed and the
// position alone, not on the number of workers. A sample that cannot be read is reported once. Without shuffling, the
// samples that are too few for a last batch (drop_last) come first in the next epoch, so that all of them have their
// turn. One thread uses a loader at a time.
class Loader {
 public:
  // Binds the transforms. Throws Error(invalid_argument) for options out of range, for data with fewer samples than a
  // batch under drop_last, and as transforms do.
  Loader(std::shared_ptr<const Dataset> data, TransformList transforms, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  const std::vector<Field>& fields() const;  // of a sample in a batch
  std::int64_t batches_per_epoch() const;
  // Samples of an epoch that no batch of it has.
  std::int64_t left_over() const;
  // What a user would call a sample, by its number in Batch::indices.
  std::string describe(std::int64_t index) const;

  // Waits for the next batch. Throws Error when no sample of the data can be read.
  Batch next();
  DataPosition position() const;
  // The next batch is the one at this position. What was made ahead is dropped. Throws Error(invalid_argument) for one
  // that the data do not have.
  void seek(const DataPosition& position);

  LoaderReport report() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::train
