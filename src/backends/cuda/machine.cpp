#include "backends/cuda/machine.h"

#include <algorithm>
#include <array>

#include "backends/cuda/kernel_images.h"
#include "base/error.h"

namespace tessera::backends::cuda {
namespace {

// The shared memory that a kernel may use without asking for more: "Kernels relying on shared memory allocations over
// 48 KB per block [...] must use dynamic shared memory [...] and require an explicit opt-in."
constexpr unsigned kSharedWithoutOptIn = 48 * 1024;

// Returns the UUID as nvidia-smi prints it.
std::string uuid_text(const driver::Uuid& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < std::size(uuid.bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid.bytes[i]);
  }
  return text;
}

NativeProducts products_of(ComputeCapability capability) {
  NativeProducts products;
  products.f64 = products.f32 = true;
  products.f16 = products.int8 = capability >= ComputeCapability{7, 5};
  products.tf32 = products.bf16 = capability >= ComputeCapability{8, 0};
  products.f8 = capability >= ComputeCapability{8, 9};
  products.int4 = capability >= ComputeCapability{7, 5} && capability < ComputeCapability{9, 0};
  return products;
}

}  // namespace

CudaMachine::CudaMachine(const DriverApi& api, int ordinal) : api_(api), name_(fmt::format("cuda:{}", ordinal)) {
  check(api_.cuDeviceGet(&device_, ordinal), "cuDeviceGet");
  properties_ = read_properties(ordinal);
  check(api_.cuDevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain");
  const CurrentContext current(*this);
  check(api_.cuEventCreate(&origin_, driver::kEventDefault), "cuEventCreate");
  driver::StreamHandle stream = nullptr;
  check(api_.cuStreamCreate(&stream, driver::kStreamNonBlocking), "cuStreamCreate");
  const driver::Result recorded = api_.cuEventRecord(origin_, stream);
  // The driver tells the time between two events only when both have been passed.
  const driver::Result passed = api_.cuStreamSynchronize(stream);
  api_.cuStreamDestroy(stream);
  check(recorded, "cuEventRecord");
  check(passed, "cuStreamSynchronize");
}

tessera::cuda::IndexFault* CudaMachine::take_index_fault() {
  const std::lock_guard lock(mutex_);
  if (index_faults_.empty()) {
    constexpr std::size_t kCells = 128;
    const CurrentContext current(*this);
    void* block = nullptr;
    check(api_.cuMemHostAlloc(&block, kCells * sizeof(tessera::cuda::IndexFault), driver::kPortableHostMemory),
          "cuMemHostAlloc");
    for (std::size_t i = 0; i < kCells; ++i)
      index_faults_.push_back(static_cast<tessera::cuda::IndexFault*>(block) + i);
  }
  tessera::cuda::IndexFault* const fault = index_faults_.back();
  index_faults_.pop_back();
  *fault = {};
  return fault;
}

void CudaMachine::give_back(tessera::cuda::IndexFault* fault) {
  const std::lock_guard lock(mutex_);
  index_faults_.push_back(fault);
}

void CudaMachine::check(driver::Result result, const char* call) const {
  if (result == driver::kSuccess) return;
  try {
    driver::check(api_, result, call);
  } catch (Error& error) {
    throw error.add_context(fmt::format("device '{}'", name_));
  }
}

int CudaMachine::attribute(driver::DeviceAttribute which) const {
  int value = 0;
  check(api_.cuDeviceGetAttribute(&value, which, device_), "cuDeviceGetAttribute");
  return value;
}

DeviceProperties CudaMachine::read_properties(int ordinal) const {
  DeviceProperties properties;
  properties.ordinal = ordinal;
  std::array<char, 256> name{};
  check(api_.cuDeviceGetName(name.data(), static_cast<int>(name.size()) - 1, device_), "cuDeviceGetName");
  properties.product = name.data();
  driver::Uuid uuid{};
  check(api_.cuDeviceGetUuid(&uuid, device_), "cuDeviceGetUuid");
  properties.uuid = uuid_text(uuid);
  std::size_t bytes = 0;
  check(api_.cuDeviceTotalMem(&bytes, device_), "cuDeviceTotalMem");
  properties.memory_bytes = static_cast<std::int64_t>(bytes);
  properties.compute_capability = {attribute(driver::kComputeCapabilityMajor),
                                   attribute(driver::kComputeCapabilityMinor)};
  properties.instruction_set =
      fmt::format("sm_{}{}", properties.compute_capability.major, properties.compute_capability.minor);
  properties.multiprocessors = attribute(driver::kMultiprocessorCount);
  properties.warp_size = attribute(driver::kWarpSize);
  properties.shared_memory_per_block_bytes = attribute(driver::kMaxSharedMemoryPerBlockOptin);
  properties.shared_memory_per_multiprocessor_bytes = attribute(driver::kMaxSharedMemoryPerMultiprocessor);
  properties.registers_per_block = attribute(driver::kMaxRegistersPerBlock);
  properties.registers_per_multiprocessor = attribute(driver::kMaxRegistersPerMultiprocessor);
  properties.l2_bytes = attribute(driver::kL2CacheBytes);
  properties.max_threads_per_block = attribute(driver::kMaxThreadsPerBlock);
  properties.streams = 4;
  properties.copy_engines = attribute(driver::kAsyncEngineCount);
  properties.allocation_alignment_bytes = 256;
  properties.vector_alignment_bytes = 16;
  properties.native_products = products_of(properties.compute_capability);
  require(attribute(driver::kVirtualMemoryManagementSupported) != 0, ErrorKind::unsupported,
          "device '{}' ({}) has no virtual memory management, which Tessera needs", name_, properties.product);
  return properties;
}

driver::FunctionHandle CudaMachine::function(std::string_view kernel, unsigned shared_bytes) {
  const std::lock_guard lock(mutex_);
  auto found = functions_.find(kernel);
  if (found == functions_.end()) {
    const tessera::cuda::KernelImage* const image = choose_image(tessera::cuda::kernel_images(), kernel, capability());
    require(image != nullptr, ErrorKind::unsupported, "this program holds no device code of '{}' for {}", kernel,
            properties_.instruction_set);
    const CurrentContext current(*this);
    driver::ModuleHandle& module = modules_[image->bytes.data()];
    if (module == nullptr) check(api_.cuModuleLoadData(&module, image->bytes.data()), "cuModuleLoadData");
    driver::FunctionHandle handle = nullptr;
    std::string name(kernel);
    check(api_.cuModuleGetFunction(&handle, module, name.c_str()), "cuModuleGetFunction");
    found = functions_.emplace(std::move(name), Function{handle, kSharedWithoutOptIn}).first;
  }
  Function& function = found->second;
  if (shared_bytes > function.shared_bytes) {
    const CurrentContext current(*this);
    check(api_.cuFuncSetAttribute(function.handle, driver::kMaxDynamicSharedBytes, static_cast<int>(shared_bytes)),
          "cuFuncSetAttribute");
    function.shared_bytes = shared_bytes;
  }
  return function.handle;
}

void CudaMachine::count_copy(bool to_device, std::int64_t bytes) {
  ++(to_device ? copies_to_device_ : copies_to_host_);
  (to_device ? bytes_to_device_ : bytes_to_host_) += bytes;
}

DeviceActivity CudaMachine::activity() const {
  return {launches_,         instantiations_, updates_,         replays_,
          copies_to_device_, copies_to_host_, bytes_to_device_, bytes_to_host_};
}

CurrentContext::CurrentContext(const CudaMachine& machine) : api_(machine.api()) {
  machine.check(api_.cuCtxGetCurrent(&before_), "cuCtxGetCurrent");
  if (before_ == machine.context_) return;
  machine.check(api_.cuCtxSetCurrent(machine.context_), "cuCtxSetCurrent");
  changed_ = true;
}

CurrentContext::~CurrentContext() {
  if (changed_) api_.cuCtxSetCurrent(before_);
}

}  // namespace tessera::backends::cuda
