// Changes that samples undergo on the way from their source into a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/numbers/philox.h"
#include "train/data/dataset.h"

namespace tessera::train {

// One change of a sample. Imand thread-safe; what is random comes from the given numbers alone, so a sample is
// changed alike whichever thread does it.
class SampleTransform {
 public:
  virtual ~SampleTransform() = default;
  // Learns the fields of the samples, once and before any of them, and returns those of a changed sample. Throws
  // Error(invalid_argument) when it is not for such samples.
  virtual std::vector<Field> bind(const std::vector<Field>& input) = 0;
  // `in` and `out` hold a buffer a field and do not overlap. `index` is the sample's number in its source.
  virtual void apply(std::int64_t index, std::span<const std::byte* const> in, std::span<std::byte* const> out,
                     base::Philox& numbers) const = 0;
  // Whether only training applies it: what makes data more varied, and not what brings them to another form.
  virtual bool for_training_only() const { return true; }
};

using TransformList = std::vector<std::unique_ptr<SampleTransform>>;

// A transform from its description:
//   flip                       pictures left to right, with probability 1/2
//   flip_vertical              pictures upside down, with probability 1/2
//   crop:PIXELS                so many zeros are put around the picture, and a part of its old size is cut out anywhere
//   cutout:SIZE                a square of SIZE × SIZE pixels anywhere becomes zeros (DeVries, Taylor,
//   arXiv:1708.04552) colour_jitter:B[:C[:S]]    brightness, contrast and saturation times a factor in [1 − B, 1 + B]
//   …, in that order normalise:MEAN:DEVIATION   (x − mean) / deviation; one number each, or one a channel, separated by
//   commas biased_crop:D,H,W[:P]      volumes x [C, D', H', W'] and labels y [D', H', W']: a part of that size, with
//                              probability P (0.4) so that it contains a voxel of a random connected component of
//                              labels above 0
//   mask_tokens:P:MASK:VOCABULARY  x of token numbers becomes x with a part P of them hidden, and y their numbers there
//                              and −100 elsewhere: of those hidden 80% become MASK, 10% a random token below
//                              VOCABULARY, 10% stay (Devlin et al., arXiv:1810.04805)
// Throws Error(invalid_argument) that names what is wrong and lists the transforms.
std::unique_ptr<SampleTransform> make_transform(const std::string& description);

// Binds the transforms one after the other. Returns the fields before the first, between two, and behind the last.
std::vector<std::vector<Field>> bind_all(const TransformList& transforms, const std::vector<Field>& fields);

}  // namespace tessera::train
