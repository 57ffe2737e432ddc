// Labelled pictures of bytes in memory, kept as bytes and given as floats.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "train/data/dataset.h"

namespace tessera::train {

// `pictures` u8 [N, channels, height, width] becomes the field x f32 [channels, height, width] in [0, 1]; `labels`, any
// integers [N], the field y i64 []. Throws Error(invalid_argument) where the counts differ.
std::unique_ptr<Dataset> make_byte_pictures(Tensor pictures, const Tensor& labels, std::string source,
                                            std::vector<std::string> class_names = {});

}  // namespace tessera::train
