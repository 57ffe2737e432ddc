// Images for programs that run on the simulated driver: use_kernel_images(emulated_images()).
#pragma once

#include <span>

#include "backends/cuda/kernel_images.h"

namespace tessera::cuda {

// Per kernel one image, PTX that holds the kernel's name and nothing that it does: the driver runs the kernel of that
// name in the emulation. The architecture is the lowest that the kernel's file names.
std::span<const KernelImage> emulated_images();

}  // namespace tessera::cuda
