// Rules of modules and launches, each with the sentence of the CUDA Driver API manual (13.0) that states it.
#include <cmath>
#include <cstring>

#include "backends/cuda/kernels/kernel_table.h"
#include "backends/cuda/kernels/rows/rows.h"
#include "driver/emulated_images.h"
#include "driver/fixture.h"

namespace tessera::cuda::driver {
namespace {

class SimulatedModules : public SimulatedDriver {
 protected:
  FunctionHandle kernel(const char* name, int capability = 80) {
    const KernelImage* const image = choose_image(emulated_images(), name, capability);
    EXPECT_NE(image, nullptr) << name;
    ModuleHandle module = nullptr;
    FunctionHandle function = nullptr;
    EXPECT_EQ(api().cuModuleLoadData(&module, image->bytes.data()), kSuccess) << name;
    EXPECT_EQ(api().cuModuleGetFunction(&function, module, name), kSuccess) << name;
    return function;
  }
  static SoftmaxParameters softmax_parameters(DeviceAddress x, DeviceAddress y, int columns) {
    return {reinterpret_cast<const void*>(x), reinterpret_cast<void*>(y), columns, false};
  }
  Result launch(FunctionHandle function, unsigned rows, SoftmaxParameters parameters, StreamHandle queue,
                unsigned shared_bytes = 0) {
    void* pointers[] = {&parameters};
    return api().cuLaunchKernel(function, rows, 1, 1, kRowThreads, 1, 1, shared_bytes, queue, pointers, nullptr);
  }
};

TEST_F(SimulatedModules, EveryKernelHasAnImage) {
  begin("capability=90");
  for (const EmulatedKernel& emulated : emulated_kernels()) EXPECT_NE(kernel(emulated.name.data(), 90), nullptr);
  EXPECT_EQ(emulated_images().size(), emulated_kernels().size());
}

// The cubins and the PTX of the build are taken, too. CUDA_ERROR_NO_BINARY_FOR_GPU: "there is no kernel image available
// that is suitable for the device".
TEST_F(SimulatedModules, TakesTheImagesOfTheBuild) {
  if (built_kernel_images().empty()) GTEST_SKIP() << "this build had no nvcc";
  for (const int capability : {75, 80, 86, 90}) {
    begin("capability=" + std::to_string(capability));
    for (const KernelImage& image : built_kernel_images()) {
      const bool same_major = image.capability / 10 == capability / 10;
      const bool suits = image.capability <= capability && (same_major || image.kind == ImageKind::ptx);
      const Result expected = suits ? kSuccess : image.kind == ImageKind::ptx ? kInvalidPtx : kNoBinaryForGpu;
      const std::string name(image.kernel);
      ModuleHandle module = nullptr;
      FunctionHandle function = nullptr;
      ASSERT_EQ(api().cuModuleLoadData(&module, image.bytes.data()), expected) << name << " on " << capability;
      if (suits) {
        EXPECT_EQ(api().cuModuleGetFunction(&function, module, name.c_str()), kSuccess) << name;
      }
    }
  }
}

// The kernel of the emulation runs on device memory, after the launch has returned: "Each of kernelParams[0] through
// kernelParams[N-1] must point to a region of memory from which the actual kernel parameter will be copied."
TEST_F(SimulatedModules, KernelsRunOnDeviceMemory) {
  const DeviceAddress x = memory(), y = memory();
  const StreamHandle queue = stream();
  const float values[] = {0, 0, 0, 0, 1, 2, 3, 4};
  ASSERT_EQ(api().cuMemcpyHtoDAsync(x, values, sizeof(values), queue), kSuccess);
  ASSERT_EQ(launch(kernel("softmax_f32"), 2, softmax_parameters(x, y, 4), queue), kSuccess);
  EXPECT_EQ(control().counters().executed, 0u);
  float results[8] = {};
  ASSERT_EQ(api().cuMemcpyDtoHAsync(results, y, sizeof(results), queue), kSuccess);
  for (int i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(results[i], 0.25f);
  EXPECT_NEAR(results[7] / results[4], std::exp(3.0f), 1e-4);
}

// "The parameters may be packaged [...] into a single buffer that is passed in via the extra parameter." "The error
// CUDA_ERROR_INVALID_VALUE will be returned if kernel parameters are specified with both kernelParams and extra".
TEST_F(SimulatedModules, ParametersMayComeInABuffer) {
  const DeviceAddress x = memory();
  const StreamHandle queue = stream();
  const float value = 3;
  ASSERT_EQ(api().cuMemcpyHtoDAsync(x, &value, 4, queue), kSuccess);
  SoftmaxParameters parameters = softmax_parameters(x, x, 1);
  std::size_t bytes = sizeof(parameters);
  void* extra[] = {reinterpret_cast<void*>(1), &parameters, reinterpret_cast<void*>(2), &bytes, nullptr};
  void* pointers[] = {&parameters};
  const FunctionHandle function = kernel("softmax_f32");
  EXPECT_EQ(api().cuLaunchKernel(function, 1, 1, 1, kRowThreads, 1, 1, 0, queue, pointers, extra), kInvalidValue);
  EXPECT_EQ(api().cuLaunchKernel(function, 1, 1, 1, kRowThreads, 1, 1, 0, queue, nullptr, extra), kSuccess);
  bytes = 8;
  EXPECT_EQ(api().cuLaunchKernel(function, 1, 1, 1, kRowThreads, 1, 1, 0, queue, nullptr, extra),
            kLaunchOutOfResources);
  EXPECT_EQ(value_at(x, queue), 0x3F800000);  // 1.0f
}

// CUDA_ERROR_ILLEGAL_ADDRESS: "While executing a kernel, the device encountered a load or store instruction on an
// invalid memory address."
TEST_F(SimulatedModules, AKernelThatReadsOutOfBoundsSpoilsTheContext) {
  const DeviceAddress x = memory();
  const StreamHandle queue = stream(), other = stream();
  ASSERT_EQ(launch(kernel("softmax_f32"), 2, softmax_parameters(x + kStep - 1024, x, 256), queue), kSuccess);
  EXPECT_EQ(api().cuStreamSynchronize(queue), kIllegalAddress);
  EXPECT_THAT(control().last_fault(), testing::HasSubstr("softmax_f32"));
  EXPECT_THAT(control().last_fault(), testing::HasSubstr("outside every buffer"));
  EXPECT_EQ(api().cuMemsetD8Async(x, 0, 4, other), kIllegalAddress);
  EXPECT_EQ(api().cuStreamDestroy(other), kIllegalAddress);
  control().recover();
  EXPECT_EQ(api().cuMemsetD8Async(x, 0, 4, queue), kSuccess);
}

// "A block has at most 1024 threads, 48 KiB of shared memory or with the attribute up to
// CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": the limits of the profile.
TEST_F(SimulatedModules, LaunchesKeepTheLimits) {
  const DeviceAddress x = memory();
  const StreamHandle queue = stream();
  const FunctionHandle function = kernel("softmax_f32");
  SoftmaxParameters parameters = softmax_parameters(x, x, 1);
  void* pointers[] = {&parameters};
  const auto launch_of = [&](unsigned grid_y, unsigned threads) {
    return api().cuLaunchKernel(function, 1, grid_y, 1, threads, 1, 1, 0, queue, pointers, nullptr);
  };
  EXPECT_EQ(launch_of(0, 256), kInvalidValue);
  EXPECT_EQ(launch_of(65536, 256), kInvalidValue);
  EXPECT_EQ(launch_of(1, 1025), kInvalidValue);
  EXPECT_EQ(launch(function, 1, parameters, queue, 48 * 1024 + 1), kInvalidValue);
  int limit = 0;
  ASSERT_EQ(api().cuDeviceGetAttribute(&limit, kMaxSharedMemoryPerBlockOptin, 0), kSuccess);
  EXPECT_EQ(limit, 163 * 1024);
  EXPECT_EQ(api().cuFuncSetAttribute(function, kMaxDynamicSharedBytes, limit + 1), kInvalidValue);
  ASSERT_EQ(api().cuFuncSetAttribute(function, kMaxDynamicSharedBytes, 64 * 1024), kSuccess);
  EXPECT_EQ(launch(function, 1, parameters, queue, 48 * 1024 + 1), kSuccess);
  EXPECT_EQ(api().cuStreamSynchronize(queue), kSuccess);
}

// CUDA_ERROR_INVALID_IMAGE: "This indicates that the device kernel image is invalid." CUDA_ERROR_INVALID_PTX: "This
// indicates that a PTX JIT compilation failed." cuModuleGetFunction: "If no function of that name exists, [...]
// CUDA_ERROR_NOT_FOUND."
TEST_F(SimulatedModules, ImagesAreLookedAt) {
  ModuleHandle module = nullptr;
  FunctionHandle function = nullptr;
  EXPECT_EQ(api().cuModuleLoadData(&module, "neither"), static_cast<Result>(200));
  EXPECT_EQ(api().cuModuleLoadData(&module, ".version 8.0\n.target sm_90\n"), kInvalidPtx);
  EXPECT_EQ(api().cuModuleLoadData(&module, ".version 8.0\n.target sm_80a\n.visible .entry softmax_f32()\n{}\n"),
            kSuccess);
  EXPECT_EQ(api().cuModuleGetFunction(&function, module, "softmax_f16"), kNotFound);
  EXPECT_EQ(api().cuModuleGetFunction(&function, module, "softmax"), kNotFound);
  EXPECT_EQ(api().cuModuleGetFunction(&function, module, "softmax_f32"), kSuccess);
  EXPECT_EQ(api().cuModuleUnload(module), kSuccess);
  EXPECT_EQ(control().counters().modules, 0u);
}

// CUDA_ERROR_LAUNCH_FAILED: "An exception occurred on the device while executing a kernel." Here: the objects of the
// kernel and its dynamic part exceed the shared memory of a block.
TEST_F(SimulatedModules, ADeviceFaultIsALaunchFailure) {
  const DeviceAddress x = memory();
  const StreamHandle queue = stream();
  const FunctionHandle function = kernel("softmax_f32");
  ASSERT_EQ(api().cuFuncSetAttribute(function, kMaxDynamicSharedBytes, 163 * 1024), kSuccess);
  ASSERT_EQ(launch(function, 1, softmax_parameters(x, x, 4), queue, 163 * 1024), kSuccess);
  EXPECT_EQ(api().cuStreamSynchronize(queue), kLaunchFailed);
  EXPECT_THAT(control().last_fault(), testing::HasSubstr("shared memory"));
}

}  // namespace
}  // namespace tessera::cuda::driver
