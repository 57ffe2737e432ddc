#include "driver/emulated_images.h"

#include <deque>
#include <string>
#include <vector>

#include "emulated_architectures.h"

namespace tessera::cuda {
namespace {

struct Images {
  std::deque<std::string> texts;
  std::vector<KernelImage> images;

  Images() {
    for (const EmulatedArchitecture& row : kEmulatedArchitectures) {
      const std::string target = row.target;
      const std::string& text =
          texts.emplace_back(".version 8.0\n.target " + target + "\n.address_size 64\n.visible .entry " + row.kernel +
                             "()\n{\n  ret;\n}\n");
      // What needs one exact architecture runs on no later device.
      const ImageKind kind = target.ends_with('a') ? ImageKind::exact_cubin : ImageKind::ptx;
      images.push_back(
          {row.kernel, row.capability, kind, {reinterpret_cast<const std::byte*>(text.data()), text.size() + 1}});
    }
  }
};

}  // namespace

std::span<const KernelImage> emulated_images() {
  static const Images images;
  return images.images;
}

}  // namespace tessera::cuda
