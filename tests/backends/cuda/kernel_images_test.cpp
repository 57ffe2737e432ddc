#include "backends/cuda/kernel_images.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

#include "backends/cuda/kernels/kernel_table.h"

namespace tessera::cuda {
namespace {

constexpr KernelImage kImages[] = {
    {"k", 75, ImageKind::cubin, {}},       {"k", 80, ImageKind::cubin, {}}, {"k", 86, ImageKind::cubin, {}},
    {"k", 90, ImageKind::exact_cubin, {}}, {"k", 86, ImageKind::ptx, {}},   {"other", 89, ImageKind::cubin, {}},
};

const KernelImage* chosen(int capability, std::string_view kernel = "k") {
  return choose_image(kImages, kernel, capability);
}

TEST(CudaKernelImages, SuitTheDevice) {
  EXPECT_EQ(chosen(75), &kImages[0]);
  EXPECT_EQ(chosen(80), &kImages[1]);
  EXPECT_EQ(chosen(87), &kImages[2]);   // the highest of the same major version
  EXPECT_EQ(chosen(90), &kImages[3]);   // exactly its version, before PTX
  EXPECT_EQ(chosen(100), &kImages[4]);  // compiled by the driver
  EXPECT_EQ(chosen(70), nullptr);
  EXPECT_EQ(chosen(89, "other"), &kImages[5]);
  EXPECT_EQ(chosen(90, "other"), nullptr);  // another major version
  EXPECT_EQ(chosen(80, "none"), nullptr);
}

// Both compilers know the same kernels, and an image is what its kind says.
TEST(CudaKernelImages, HoldEveryKernelOfTheEmulation) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc (scripts/setup.sh --cuda installs it)";
  std::set<std::string_view> embedded, emulated;
  for (const KernelImage& image : kernel_images()) {
    embedded.insert(image.kernel);
    ASSERT_GT(image.bytes.size(), 64u);
    const auto* text = reinterpret_cast<const char*>(image.bytes.data());
    EXPECT_EQ(std::memcmp(text,
                          "\x7f"
                          "ELF",
                          4) == 0,
              image.kind != ImageKind::ptx)
        << image.kernel;
    if (image.kind == ImageKind::ptx) {
      EXPECT_NE(std::string_view(text).find(".entry " + std::string(image.kernel)), std::string_view::npos);
    }
  }
  for (const EmulatedKernel& kernel : emulated_kernels()) emulated.insert(kernel.name);
  EXPECT_EQ(embedded, emulated);
}

}  // namespace
}  // namespace tessera::cuda
