// Device code of the CUDA kernels, embedded in the program: cubins for the architectures that the build chose, and PTX
// from which the driver of a newer device compiles.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace tessera::cuda {

enum class ImageKind {
  cubin,        // for devices of the same major version whose minor one is not lower
  exact_cubin,  // for devices of exactly this version: it uses what later ones lack (sm_90a)
  ptx,          // for devices of this version and all later ones
};

struct KernelImage {
  std::string_view kernel;  // the function's name in the image
  int capability = 0;       // 10 × major + minor
  ImageKind kind = ImageKind::cubin;
  std::span<const std::byte> bytes;  // what the driver loads as a module; PTX ends with a zero byte behind it
};

// All images, one row per kernel and image. Empty where the build had no nvcc, unless use_kernel_images() was called.
std::span<const KernelImage> kernel_images();
// Those that the build made (the table that CMakeLists.txt writes).
std::span<const KernelImage> built_kernel_images();
// Takes these images in place of the built ones, for drivers that find kernels by their names alone, such as the
// simulated one of the tests. To be called before a device is used; the images must live until the process ends.
void use_kernel_images(std::span<const KernelImage> images);

// The image of `kernel` that suits a device best: a cubin for exactly its version, then the cubin of the highest
// version that it runs, then PTX of the highest version. Null where none suits.
const KernelImage* choose_image(std::span<const KernelImage> images, std::string_view kernel, int capability);

}  // namespace tessera::cuda
