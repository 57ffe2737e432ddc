// Entry points of modules and launches. An image is only looked at for its form and its names: what runs is the kernel
// of the same name in the emulation.
#include <elf.h>

#include <cstring>
#include <string_view>

#include "driver/exports.h"
#include "driver/queues.h"

namespace tessera::cuda::driver {
namespace {

// "Cubins are binary-compatible within a major version": one for X.y runs on devices X.z with z not below y. The
// version stands in the second byte of the flags, in the first one before the eighth version of the binary interface
// (CUDA 13).
bool suits(const Elf64_Ehdr& header, int capability) {
  const int version = static_cast<int>(header.e_flags >> (header.e_ident[EI_ABIVERSION] >= 8 ? 8 : 0) & 0xFF);
  return version / 10 == capability / 10 && version <= capability;
}

// A cubin's headers tell its size; everything lies before its section headers' or its program headers' end.
std::string elf_image(const void* image, int capability) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof(header));
  require(header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_machine == 190, kInvalidImage);  // EM_CUDA
  require(suits(header, capability), kNoBinaryForGpu);
  std::size_t end = header.e_shoff + std::size_t{header.e_shentsize} * header.e_shnum;
  end = std::max<std::size_t>(end, header.e_phoff + std::size_t{header.e_phentsize} * header.e_phnum);
  return {static_cast<const char*>(image), end};
}

// ".target sm_90a" runs on devices of exactly 9.0, ".target sm_80" on devices from 8.0 on.
bool suits(std::string_view ptx, int capability) {
  const std::size_t place = ptx.find(".target sm_");
  if (place == std::string_view::npos) return false;
  std::size_t end = place + 11;
  int target = 0;
  while (end < ptx.size() && ptx[end] >= '0' && ptx[end] <= '9' && target < 1000)
    target = target * 10 + (ptx[end++] - '0');
  const bool exact = end < ptx.size() && ptx[end] == 'a';
  return exact ? target == capability : target <= capability;
}

std::unique_ptr<ModuleObject> read_image(const Simulator& simulator, const void* image) {
  auto module = std::make_unique<ModuleObject>();
  if (std::memcmp(image, ELFMAG, SELFMAG) == 0) {
    module->elf = true;
    module->image = elf_image(image, simulator.settings.capability);
    return module;
  }
  // "The pointer may point to [...] a NULL-terminated text string" of PTX.
  const std::string_view text = static_cast<const char*>(image);
  require(text.find(".version") != std::string_view::npos, kInvalidImage);
  require(suits(text, simulator.settings.capability), kInvalidPtx);
  module->image = text;
  return module;
}

bool has_kernel(const ModuleObject& module, const std::string& name) {
  if (module.elf) return module.image.find(".text." + name + '\0') != std::string::npos;
  const std::size_t place = module.image.find(".entry " + name);
  if (place == std::string::npos) return false;
  const std::size_t end = place + 7 + name.size();
  return end < module.image.size() &&
         (module.image[end] == '(' || module.image[end] == ' ' || module.image[end] == '\n');
}

const EmulatedKernel* find_kernel(std::string_view name) {
  for (const EmulatedKernel& kernel : emulated_kernels()) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

FunctionObject& function_of(Simulator& simulator, FunctionHandle handle) {
  for (const auto& [module_handle, module] : simulator.modules) {
    for (const auto& function : module->functions) {
      if (function.get() == handle) return *function;
    }
  }
  throw Failure{kInvalidHandle};
}

void append_parameter(std::vector<ParameterSlot>& slots, const void* value, std::size_t bytes) {
  const std::size_t first = slots.size();
  slots.resize(first + (bytes + sizeof(ParameterSlot) - 1) / sizeof(ParameterSlot));
  std::memcpy(slots.data() + first, value, bytes);
}

// "Each of kernelParams[0] through kernelParams[N-1] must point to a region of memory from which the actual kernel
// parameter will be copied." The copy is made before the launch returns.
std::vector<ParameterSlot> copy_parameters(const EmulatedKernel& kernel, void** parameters) {
  std::vector<ParameterSlot> slots;
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    require(parameters[i] != nullptr);
    append_parameter(slots, parameters[i], kernel.parameters[i].bytes);
  }
  return slots;
}

// "Kernel parameters can also be packaged by the application into a single buffer that is passed in via the extra
// parameter." The list is of pairs: 1 and the buffer, 2 and its size, 0.
std::vector<ParameterSlot> unpack_parameters(const EmulatedKernel& kernel, void** extra) {
  const std::byte* buffer = nullptr;
  std::size_t bytes = 0, offset = 0;
  for (; *extra != nullptr; extra += 2) {
    const auto name = reinterpret_cast<std::uintptr_t>(extra[0]);
    require(name == 1 || name == 2);
    if (name == 1) buffer = static_cast<const std::byte*>(extra[1]);
    if (name == 2) bytes = *static_cast<const std::size_t*>(extra[1]);
  }
  std::vector<ParameterSlot> slots;
  for (const emulation::ParameterLayout& layout : kernel.parameters) {
    offset = (offset + layout.alignment - 1) / layout.alignment * layout.alignment;
    require(buffer != nullptr && layout.bytes <= bytes && offset <= bytes - layout.bytes, kLaunchOutOfResources);
    append_parameter(slots, buffer + offset, layout.bytes);
    offset += layout.bytes;
  }
  return slots;
}

// The limits of the compute capability; the dynamic shared memory above 48 KiB needs the function's attribute.
void check_limits(const FunctionObject& function, const Launch& launch) {
  const emulation::Dim3 &grid = launch.grid, &block = launch.block;
  require(grid.x > 0 && grid.y > 0 && grid.z > 0 && block.x > 0 && block.y > 0 && block.z > 0);
  require(grid.x <= 0x7FFFFFFF && grid.y <= 65535 && grid.z <= 65535);
  require(block.x <= 1024 && block.y <= 1024 && block.z <= 64);
  require(std::size_t{block.x} * block.y * block.z <= 1024);
  const std::size_t allowed =
      std::max<std::size_t>(kSharedBytesPerBlock, static_cast<std::size_t>(function.dynamic_shared_bytes));
  require(launch.dynamic_shared_bytes <= allowed);
}

}  // namespace

extern "C" {

Result cuModuleLoadData(ModuleHandle* module, const void* image) {
  return entry("cuModuleLoadData", [&](Simulator& simulator) {
    ContextObject& context = simulator.context();
    require(module != nullptr && image != nullptr);
    std::unique_ptr<ModuleObject> read = read_image(simulator, image);
    read->context = &context;
    *module = read.get();
    simulator.modules[*module] = std::move(read);
  });
}

Result cuModuleLoadDataEx(ModuleHandle* module, const void* image, unsigned count, int* options, void** values) {
  return cuModuleLoadData(module, image);  // options are the just-in-time compiler's
}

Result cuModuleUnload(ModuleHandle module) {
  return release_entry("cuModuleUnload", [&](Simulator& simulator) {
    const auto found = simulator.modules.find(module);
    require(found != simulator.modules.end(), kInvalidHandle);
    const Result spoilt = found->second->context->spoilt;
    simulator.modules.erase(found);
    require(spoilt == kSuccess, spoilt);
  });
}

// "If no function of that name exists, cuModuleGetFunction() returns CUDA_ERROR_NOT_FOUND."
Result cuModuleGetFunction(FunctionHandle* function, ModuleHandle module, const char* name) {
  return entry("cuModuleGetFunction", [&](Simulator& simulator) {
    simulator.context();
    require(function != nullptr && name != nullptr && *name != 0);
    const auto found = simulator.modules.find(module);
    require(found != simulator.modules.end(), kInvalidHandle);
    const EmulatedKernel* const kernel = find_kernel(name);
    require(kernel != nullptr && has_kernel(*found->second, name), kNotFound);
    std::vector<std::unique_ptr<FunctionObject>>& functions = found->second->functions;
    for (const auto& known : functions) {
      if (known->name == name) *function = known.get();
      if (known->name == name) return;
    }
    functions.push_back(std::make_unique<FunctionObject>(FunctionObject{module, name, kernel}));
    *function = functions.back().get();
  });
}

// "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: The maximum size in bytes of dynamically-allocated shared memory.
// The value should contain the requested maximum size of dynamically-allocated shared memory. The sum of this value and
// the function attribute CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES cannot exceed the device attribute
// CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN."
Result cuFuncSetAttribute(FunctionHandle function, FunctionAttribute attribute, int value) {
  return entry("cuFuncSetAttribute", [&](Simulator& simulator) {
    simulator.context();
    FunctionObject& object = function_of(simulator, function);
    require(attribute == kMaxDynamicSharedBytes || static_cast<int>(attribute) == 9);  // 9: preferred carve-out
    if (attribute != kMaxDynamicSharedBytes) return;
    require(value >= 0 && value <= simulator.profile().shared_bytes_per_block);
    object.dynamic_shared_bytes = value;
  });
}

// "The error CUDA_ERROR_INVALID_VALUE will be returned if kernel parameters are specified with both kernelParams and
// extra".
Result cuLaunchKernel(FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared_bytes, StreamHandle stream, void** parameters,
                      void** extra) {
  return entry("cuLaunchKernel", [&](Simulator& simulator) {
    ContextObject& context = simulator.context();
    StreamObject& target = simulator.stream(stream);
    const FunctionObject& object = function_of(simulator, function);
    require(object.module->context == &context && target.context == &context, kInvalidHandle);
    Launch launch;
    launch.kernel = object.kernel;
    launch.grid = {grid_x, grid_y, grid_z};
    launch.block = {block_x, block_y, block_z};
    launch.dynamic_shared_bytes = shared_bytes;
    launch.shared_limit_bytes = static_cast<std::size_t>(simulator.profile().shared_bytes_per_block);
    check_limits(object, launch);
    require(parameters == nullptr || extra == nullptr);
    require(parameters != nullptr || extra != nullptr || object.kernel->parameters.empty());
    if (parameters != nullptr) launch.parameters = copy_parameters(*object.kernel, parameters);
    if (extra != nullptr) launch.parameters = unpack_parameters(*object.kernel, extra);
    submit(simulator, target, std::move(launch));
  });
}

}  // extern "C"

}  // namespace tessera::cuda::driver
