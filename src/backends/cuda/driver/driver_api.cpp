#include "backends/cuda/driver/driver_api.h"

#include <dlfcn.h>

#include "base/error.h"

namespace tessera::cuda::driver {
namespace {

using GetProcAddress = Result (*)(const char* name, void** function, int version, std::uint64_t flags, int* status);

struct LoadedDriver {
  DriverApi api;
  std::string why;  // empty: it can be used
};

std::string describe(const DriverApi& api, Result result) {
  const char *name = nullptr, *text = nullptr;
  if (api.cuGetErrorName(result, &name) != kSuccess || name == nullptr) name = "an unknown error";
  if (api.cuGetErrorString(result, &text) != kSuccess || text == nullptr) text = "no description";
  return fmt::format("{} ({}): {}", name, static_cast<int>(result), text);
}

// Returns the name of the first entry point that the driver lacks, or null.
const char* find_entries(DriverApi& api, GetProcAddress find) {
  int status = 0;
#define TESSERA_CUDA_ENTRY(name, parameters)                                                              \
  {                                                                                                       \
    void* function = nullptr;                                                                             \
    if (find(#name, &function, kApiVersion, 0, &status) != kSuccess || function == nullptr) return #name; \
    api.name = reinterpret_cast<decltype(api.name)>(function);                                            \
  }
  TESSERA_CUDA_ENTRIES(TESSERA_CUDA_ENTRY)
#undef TESSERA_CUDA_ENTRY
  return nullptr;
}

LoadedDriver load() {
  LoadedDriver driver;
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    driver.why = fmt::format("the NVIDIA driver is not installed ({})", dlerror());
    return driver;
  }
  // The second version of cuGetProcAddress came with CUDA 12.
  const auto find = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (find == nullptr) {
    driver.why = "the NVIDIA driver is too old: it is of a version before CUDA 12.0 (no cuGetProcAddress_v2)";
    return driver;
  }
  if (const char* const missing = find_entries(driver.api, find)) {
    driver.why = fmt::format("the NVIDIA driver lacks {}: it is older than CUDA 12.0, or not complete", missing);
    return driver;
  }
  if (const Result result = driver.api.cuInit(0); result != kSuccess)
    driver.why = result == kNoDevice ? "the NVIDIA driver finds no GPU"
                                     : "the NVIDIA driver does not start: " + describe(driver.api, result);
  return driver;
}

// "The context cannot be used, so it must be destroyed" and its like, by the descriptions of CUresult.
bool loses_context(Result result) {
  switch (result) {
    case kIllegalAddress:
    case kLaunchTimeout:
    case kLaunchFailed:
      return true;
    default:
      return result > kLaunchTimeout && result < kLaunchFailed && result != 704 && result != 705 && result != 708 &&
             result != 709 && result != 712 && result != 713;
  }
}

}  // namespace

const DriverApi* find_driver(std::string* why) {
  // Never unloaded: threads of the driver run until the process ends.
  static const LoadedDriver& driver = *new LoadedDriver(load());
  if (driver.why.empty()) return &driver.api;
  if (why != nullptr) *why = driver.why;
  return nullptr;
}

void check(const DriverApi& api, Result result, const char* call) {
  if (result == kSuccess) return;
  const ErrorKind kind = result == kOutOfMemory                                 ? ErrorKind::over_budget
                         : result == kNotSupported || result == kNoBinaryForGpu ? ErrorKind::unsupported
                                                                                : ErrorKind::failed;
  throw Error(
      kind, fmt::format("{} failed with {}{}", call, describe(api, result),
                        loses_context(result) ? "; the device can be used again after a restart of the process" : ""));
}

}  // namespace tessera::cuda::driver
