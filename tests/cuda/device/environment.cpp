// Gives the backend the images that the simulated driver knows, before a test asks for a device.
#include <gtest/gtest.h>

#include "driver/emulated_images.h"

namespace tessera::test {
namespace {

class EmulatedImages final : public testing::Environment {
 public:
  void SetUp() override { cuda::use_kernel_images(cuda::emulated_images()); }
};

[[maybe_unused]] const testing::Environment* const kImages = testing::AddGlobalTestEnvironment(new EmulatedImages);

}  // namespace
}  // namespace tessera::test
