#include "backends/cuda/kernel_images.h"

namespace tessera::cuda {
namespace {

// How well the image suits a device of `capability`: higher is better, 0 not at all.
int suitability(const KernelImage& image, int capability) {
  const bool not_newer = image.capability <= capability;
  switch (image.kind) {
    case ImageKind::exact_cubin:
      return image.capability == capability ? 3000 : 0;
    case ImageKind::cubin:
      return not_newer && image.capability / 10 == capability / 10 ? 2000 + image.capability : 0;
    case ImageKind::ptx:
      return not_newer ? 1000 + image.capability : 0;
  }
  return 0;
}

std::span<const KernelImage> used;  // empty: the built ones

}  // namespace

std::span<const KernelImage> kernel_images() {
  return used.empty() ? built_kernel_images() : used;
}

void use_kernel_images(std::span<const KernelImage> images) {
  used = images;
}

const KernelImage* choose_image(std::span<const KernelImage> images, std::string_view kernel, int capability) {
  const KernelImage* best = nullptr;
  int best_suitability = 0;
  for (const KernelImage& image : images) {
    const int suits = image.kernel == kernel ? suitability(image, capability) : 0;
    if (suits > best_suitability) {
      best = &image;
      best_suitability = suits;
    }
  }
  return best;
}

}  // namespace tessera::cuda
