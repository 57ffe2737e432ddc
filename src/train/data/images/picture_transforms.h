// Transforms of pictures x f32 [channels, height, width]; see make_transform.
#pragma once

#include "train/data/transform.h"

namespace tessera::train {

std::unique_ptr<SampleTransform> make_flip(bool vertical);
std::unique_ptr<SampleTransform> make_crop(std::int64_t padding);
std::unique_ptr<SampleTransform> make_cutout(std::int64_t size);
std::unique_ptr<SampleTransform> make_colour_jitter(double brightness, double contrast, double saturation);
// Also of other shapes [channels, …]; one number stands for all channels.
std::unique_ptr<SampleTransform> make_normalise(std::vector<float> mean, std::vector<float> deviation);

}  // namespace tessera::train
