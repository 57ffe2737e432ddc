// The simulated driver as the backend's loader finds it, and what its tests share.
#pragma once

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/cuda/driver/driver_api.h"
#include "driver/control.h"

namespace tessera::cuda::driver {

// The functions of control.h in the loaded library.
struct Control {
  decltype(&tessera_simulated_cuda_configure) configure;
  decltype(&tessera_simulated_cuda_fail) fail;
  decltype(&tessera_simulated_cuda_recover) recover;
  decltype(&tessera_simulated_cuda_set_seed) set_seed;
  decltype(&tessera_simulated_cuda_counters) counters;
  decltype(&tessera_simulated_cuda_calls) calls;
  decltype(&tessera_simulated_cuda_last_fault) last_fault;
};

inline const Control& control() {
  static const Control functions = [] {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) ADD_FAILURE() << dlerror();
    Control found{};
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
      if (function == nullptr) ADD_FAILURE() << "libcuda.so.1 is not the simulated driver: it has no " << name;
    };
    find(found.configure, "tessera_simulated_cuda_configure");
    find(found.fail, "tessera_simulated_cuda_fail");
    find(found.recover, "tessera_simulated_cuda_recover");
    find(found.set_seed, "tessera_simulated_cuda_set_seed");
    find(found.counters, "tessera_simulated_cuda_counters");
    find(found.calls, "tessera_simulated_cuda_calls");
    find(found.last_fault, "tessera_simulated_cuda_last_fault");
    return found;
  }();
  return functions;
}

// A device of capability 8.0 with 64 MiB, whose primary context is current.
class SimulatedDriver : public testing::Test {
 protected:
  void SetUp() override { begin("memory=64MiB"); }

  void begin(const std::string& settings) {
    std::string why;
    ASSERT_STREQ(control().configure("devices=1"), nullptr);  // the loader's cuInit finds a device
    api_ = find_driver(&why);
    ASSERT_NE(api_, nullptr) << why;
    const char* const problem = control().configure(settings.c_str());
    ASSERT_EQ(problem, nullptr) << problem;
    ASSERT_EQ(api_->cuInit(0), kSuccess);
    ASSERT_EQ(api_->cuDevicePrimaryCtxRetain(&context_, 0), kSuccess);
    ASSERT_EQ(api_->cuCtxSetCurrent(context_), kSuccess);
  }

  const DriverApi& api() const { return *api_; }
  ContextHandle context() const { return context_; }

  StreamHandle stream(unsigned flags = kStreamNonBlocking) {
    StreamHandle made = nullptr;
    EXPECT_EQ(api().cuStreamCreate(&made, flags), kSuccess);
    return made;
  }
  EventHandle event(unsigned flags = kEventDefault) {
    EventHandle made = nullptr;
    EXPECT_EQ(api().cuEventCreate(&made, flags), kSuccess);
    return made;
  }

  static AllocationProperties properties() {
    AllocationProperties pinned{};
    pinned.type = kPinnedAllocation;
    pinned.location = {kDeviceLocation, 0};
    return pinned;
  }
  AllocationHandle allocation(std::size_t bytes) {
    const AllocationProperties pinned = properties();
    AllocationHandle handle = 0;
    EXPECT_EQ(api().cuMemCreate(&handle, bytes, &pinned, 0), kSuccess);
    return handle;
  }
  DeviceAddress reservation(std::size_t bytes) {
    DeviceAddress address = 0;
    EXPECT_EQ(api().cuMemAddressReserve(&address, bytes, 0, 0, 0), kSuccess);
    return address;
  }
  Result set_access(DeviceAddress address, std::size_t bytes, int flags = kReadsAndWrites) {
    const AccessDescription access{{kDeviceLocation, 0}, flags};
    return api().cuMemSetAccess(address, bytes, &access, 1);
  }
  // Device memory that is mapped and accessible.
  DeviceAddress memory(std::size_t bytes = kStep) {
    const DeviceAddress address = reservation(bytes);
    const AllocationHandle handle = allocation(bytes);
    EXPECT_EQ(api().cuMemMap(address, bytes, 0, handle, 0), kSuccess);
    EXPECT_EQ(api().cuMemRelease(handle), kSuccess);
    EXPECT_EQ(set_access(address, bytes), kSuccess);
    return address;
  }
  template <class T>
  T* pinned(std::size_t count) {
    void* block = nullptr;
    EXPECT_EQ(api().cuMemHostAlloc(&block, count * sizeof(T), kPortableHostMemory), kSuccess);
    return static_cast<T*>(block);
  }
  // The first value at a device address, after everything that the stream does.
  int value_at(DeviceAddress address, StreamHandle stream) {
    int value = 0;
    EXPECT_EQ(api().cuMemcpyDtoHAsync(&value, address, sizeof(value), stream), kSuccess);
    return value;
  }

  static constexpr std::size_t kStep = std::size_t{2} << 20;  // the granularity

 private:
  const DriverApi* api_ = nullptr;
  ContextHandle context_ = nullptr;
};

}  // namespace tessera::cuda::driver
