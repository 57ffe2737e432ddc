// One GPU: its primary context, its kernels' functions, and the counts of its work.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/driver/driver_api.h"
#include "backends/cuda/kernels/index_fault.h"
#include "backends/device_activity.h"
#include "backends/device_properties.h"

namespace tessera::backends::cuda {

using tessera::cuda::driver::DriverApi;
namespace driver = tessera::cuda::driver;

// The sizes of a launch.
struct LaunchShape {
  struct Size {
    unsigned x = 1, y = 1, z = 1;
  } grid, block;
  unsigned shared_bytes = 0;  // dynamic shared memory
};

// Thread-safe. Lives until the process ends.
class CudaMachine {
 public:
  // Retains the primary context of the device, which other libraries of the process share. Throws Error.
  CudaMachine(const DriverApi& api, int ordinal);
  CudaMachine(const CudaMachine&) = delete;
  CudaMachine& operator=(const CudaMachine&) = delete;

  const DriverApi& api() const { return api_; }
  const std::string& name() const { return name_; }
  const DeviceProperties& properties() const { return properties_; }
  driver::DeviceHandle device() const { return device_; }
  int capability() const { return properties_.compute_capability.major * 10 + properties_.compute_capability.minor; }
  // A record from which the times of all events are counted.
  driver::EventHandle origin() const { return origin_; }

  // Throws Error that names the call and the device.
  void check(driver::Result result, const char* call) const;
  // The function of a kernel, whose module is loaded at the first call. Throws Error(unsupported) where the program
  // holds no device code of it for this device.
  driver::FunctionHandle function(std::string_view kernel, unsigned shared_bytes);

  // A cleared cell in pinned memory in which the kernels of one stream report indices outside their axes, until it is
  // given back. Cells are never freed: recordings may outlive the stream on which they were captured.
  tessera::cuda::IndexFault* take_index_fault();
  void give_back(tessera::cuda::IndexFault* fault);

  int next_stream() { return streams_.fetch_add(1); }
  void count_launch() { ++launches_; }
  void count_recording(bool is_update) { ++(is_update ? updates_ : instantiations_); }
  void count_replay() { ++replays_; }
  void count_copy(bool to_device, std::int64_t bytes);
  DeviceActivity activity() const;

 private:
  friend class CurrentContext;
  int attribute(driver::DeviceAttribute which) const;
  DeviceProperties read_properties(int ordinal) const;

  const DriverApi& api_;
  driver::DeviceHandle device_ = 0;
  driver::ContextHandle context_ = nullptr;
  driver::EventHandle origin_ = nullptr;
  std::string name_;
  DeviceProperties properties_;
  std::mutex mutex_;                                     // guards the following
  std::map<const void*, driver::ModuleHandle> modules_;  // by image
  struct Function {
    driver::FunctionHandle handle = nullptr;
    unsigned shared_bytes = 0;  // that it was allowed so far
  };
  std::map<std::string, Function, std::less<>> functions_;  // by kernel
  std::vector<tessera::cuda::IndexFault*> index_faults_;    // that no stream uses
  std::atomic<int> streams_{0};
  std::atomic<std::int64_t> launches_{0}, instantiations_{0}, updates_{0}, replays_{0}, copies_to_device_{0},
      copies_to_host_{0}, bytes_to_device_{0}, bytes_to_host_{0};
};

// Makes the machine's context current for the calling thread, as calls on memory, events and modules need; the
// destructor restores the one before, which may belong to another library.
class CurrentContext {
 public:
  explicit CurrentContext(const CudaMachine& machine);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  const DriverApi& api_;
  driver::ContextHandle before_ = nullptr;
  bool changed_ = false;
};

}  // namespace tessera::backends::cuda
