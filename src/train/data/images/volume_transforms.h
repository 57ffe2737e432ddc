// Transforms of volumes for segmentation; see make_transform.
#pragma once

#include "train/data/transform.h"

namespace tessera::train {

struct VolumeSize {
  std::int64_t depth = 0, height = 0, width = 0;
};

// The box of a connected component of voxels above 0, which touch by their faces.
struct Component {
  VolumeSize first, last;  // both included
};
std::vector<Component> connected_components(const std::int64_t* labels, const VolumeSize& size);

std::unique_ptr<SampleTransform> make_biased_crop(const VolumeSize& size, double probability);

}  // namespace tessera::train
