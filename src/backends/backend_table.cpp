#include "backends/backend_table.h"

#include <array>

#include "backends/cpu/cpu_device.h"
#include "backends/cuda/cuda_device.h"
#include "backends/null/null_device.h"
#include "backends/reference/reference_device.h"
#include "backends/simulated/simulated_device.h"

namespace tessera::backends {
namespace {

template <const Device& (*device)()>
std::vector<const Device*> only() {
  return {&device()};
}

std::vector<const Device*> gpus() {
  return cuda::cuda_devices(cpu_device());
}

const Device& find_gpu(std::string_view name) {
  return cuda::find_cuda_device(name, cpu_device());
}

const Device& find_simulated(std::string_view name) {
  return simulated::find_simulated_device(name, {cpu_device(), reference_device()});
}

constexpr std::array<KindOfDevices, 5> kKinds{
    {{.name = "cpu", .form = "cpu", .enumerate = only<cpu_device>},
     {.name = cuda::kDeviceKind, .form = "cuda:N", .enumerate = gpus, .find = find_gpu},
     {.name = "reference", .form = "reference", .enumerate = only<reference_device>},
     {.name = "null", .form = "null", .enumerate = only<null_device>},
     {.name = simulated::kDeviceKind,
      .form = "simulated:PROFILE",
      .enumerate = simulated::simulated_devices,
      .find = find_simulated}}};

}  // namespace

std::span<const KindOfDevices> device_kinds() {
  return kKinds;
}

std::vector<const Device*> all_devices() {
  return devices_of(kKinds);
}

const Device& find_device(std::string_view name) {
  return find_device(kKinds, name);
}

}  // namespace tessera::backends
