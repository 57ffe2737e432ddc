// NVIDIA GPUs as devices, by the CUDA driver that is found when the program runs.
#pragma once

#include <string_view>
#include <vector>

#include "backends/backend.h"

namespace tessera::backends::cuda {

inline constexpr std::string_view kDeviceKind = "cuda";

// The GPUs of this machine, by ordinal; none where there is no driver. Those that cannot be used are left out, so that
// ordinals may have gaps. `host` runs what GPUs cannot; only the first call's counts.
std::vector<const Device*> cuda_devices(const Device& host);

// Returns the device that "cuda", "cuda:ORDINAL" or a UUID denotes. Throws Error(unsupported) that says in one line why
// there is none: no driver, no GPU, a GPU without what Tessera needs.
const Device& find_cuda_device(std::string_view name, const Device& host);

}  // namespace tessera::backends::cuda
