// The settings of a picture that a step or a model of pictures reads.
#pragma once

#include "serve/core/steps/image_tensor.h"
#include "serve/core/steps/step.h"

namespace tessera::serve {

// `usual` holds what the settings may leave out; a size of 0 there must be given. Throws Error(invalid_argument).
PictureOptions picture_options(StepSettings& settings, const PictureOptions& usual);

// A step that makes `output`, and the size of the image as kPictureSize.
std::unique_ptr<PipelineStep> make_picture_step(const std::string& output, const PictureOptions& options,
                                                const ImageMemory& images);

}  // namespace tessera::serve
