// Makes batches ahead of their use: worker threads read and transform samples while the model computes.
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
  bool drop_last = true;  // leave out the samples at the end of an epoch that do not fill a batch
  // Whether a sample that cannot be read is replaced by another one, drawn at random; otherwise the batch is smaller,
  // and may be empty. Samples that are known to be unreadable (Dataset::unreadable) are left out from the start.
  bool replace_unreadable = true;
  int workers = 2;  // threads; with 0, batches are made in the thread that calls next()
  // The number of batches that a worker makes at a time.
  std::int64_t batch_multiplier = 1;
  // The approximate limit on the bytes of batches that are made ahead; at least two batches are always allowed.
  std::int64_t max_ahead_bytes = std::int64_t{256} << 20;
  // If above 0, each image x becomes λ x + (1 − λ) x', where x' is another image of its batch and λ is drawn from
  // Beta(mixup, mixup). The fields y_mixed (the label of x') and mix (λ, f32) are added. Zhang et al.,
  // arXiv:1710.09412.
  double mixup = 0;
  // One weight per sample: an epoch's samples are drawn with replacement in proportion to them (data/sampler.h). If
  // empty, an epoch has each sample once.
  std::vector<double> weights;
  // next() returns `count` batches from number `first` on of each `period` in a row, counted from the start or from the
  // position of seek(); the others, which other ranks take, are not made.
  std::int64_t period = 1, first = 0, count = 1;
};

// The position of a loader: `batch` batches of epoch `epoch` have been returned.
struct DataPosition {
  std::int64_t epoch = 0, batch = 0;
  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

struct Batch {
  std::map<std::string, Tensor> fields;  // [samples, shape of the field...]
  std::int64_t samples = 0;
  std::vector<std::int64_t> indices;  // of the samples in their source
  DataPosition position;              // before this batch
  bool ends_epoch = false;            // whether the next batch belongs to the next epoch
};

struct LoaderReport {
  std::int64_t samples = 0;          // returned in batches
  std::int64_t skipped = 0;          // number of distinct samples that could not be read
  std::vector<std::string> reasons;  // for the first of them: "cats/3.png: …"
  std::int64_t waited_ns = 0;        // time that next() waited for data
  std::int64_t ahead_bytes = 0;      // of batches that are ready or being made
};

// The batches of one data set, epoch after epoch without end. Their contents depend on the options' seed and the
// position alone, not on the number of workers. A sample that cannot be read is reported once. Without shuffling,
// samples at the end of an epoch that do not fill a batch (drop_last) come first in the next epoch, so that every
// sample has its turn. Not thread-safe.
class Loader {
 public:
  // Binds the transforms. Throws Error(invalid_argument) for options out of range and for data with fewer samples than
  // a batch under drop_last, and the errors of transforms.
  Loader(std::shared_ptr<const Dataset> data, TransformList transforms, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  const std::vector<Field>& fields() const;  // of a sample in a batch
  std::int64_t batches_per_epoch() const;
  // The number of samples that no batch of an epoch contains.
  std::int64_t left_over() const;
  // A name of the sample for users, by its number in Batch::indices.
  std::string describe(std::int64_t index) const;

  // Waits for the next batch. Throws Error if no sample of the data can be read.
  Batch next();
  DataPosition position() const;
  // Passes over the batches of the present period that next() does not return.
  void end_period();
  // Continues with the batch at this position, and drops batches that were made ahead. Throws Error(invalid_argument)
  // for a position that the data do not have.
  void seek(const DataPosition& position);

  LoaderReport report() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::train
