// Transforms that samples pass through from their source to a batch.
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

// One change of a sample. apply() is thread-safe and draws randomness from the given numbers alone, so its result does
// not depend on the thread that calls it.
class SampleTransform {
 public:
  virtual ~SampleTransform() = default;
  // Receives the fields of the samples, once and before any sample, and returns the fields of a changed sample. Throws
  // Error(invalid_argument) if the transform cannot be applied to them.
  virtual std::vector<Field> bind(const std::vector<Field>& input) = 0;
  // `in` and `out` hold one buffer per field and do not overlap. `index` is the sample's number in its source.
  virtual void apply(std::int64_t index, std::span<const std::byte* const> in, std::span<std::byte* const> out,
                     base::Philox& numbers) const = 0;
  // Whether it is applied in training only, because it makes data more varied, rather than bringing them to another
  // form.
  virtual bool for_training_only() const { return true; }
};

using TransformList = std::vector<std::unique_ptr<SampleTransform>>;

// Makes a transform from its description:
//   flip                       mirrors images left to right, with probability 1/2
//   flip_vertical              turns images upside down, with probability 1/2
//   crop:PIXELS                pads the image with so many zeros on each side, and cuts out a part of its old size at
//                              a random position
//   cutout:SIZE                sets a square of SIZE × SIZE pixels at a random position to zero
//                              (DeVries, Taylor, arXiv:1708.04552)
//   colour_jitter:B[:C[:S]]    multiplies brightness, contrast and saturation, in that order, by a factor in
//                              [1 − B, 1 + B], …
//   normalise:MEAN:DEVIATION   (x − mean) / deviation; one number each, or one per channel, separated by commas
//   biased_crop:D,H,W[:P]      cuts a part of that size out of volumes x [C, D', H', W'] and labels y [D', H', W'];
//                              with probability P (0.4), the part contains a voxel of a random connected component of
//                              labels above 0
//   mask_tokens:P:MASK:VOCABULARY
//                              hides a fraction P of the token numbers x: 80% of those become MASK, 10% a random token
//                              below VOCABULARY, and 10% stay. y is the hidden tokens' numbers, and −100 elsewhere
//                              (Devlin et al., arXiv:1810.04805)
// Throws Error(invalid_argument) that names what is wrong and lists the transforms.
std::unique_ptr<SampleTransform> make_transform(const std::string& description);

// Binds the transforms one after the other. Returns the fields before the first transform and after each one.
std::vector<std::vector<Field>> bind_all(const TransformList& transforms, const std::vector<Field>& fields);

}  // namespace tessera::train
