// Entry points of devices and contexts.
#include <cstdio>
#include <cstring>
#include <vector>

#include "driver/error_names.h"
#include "driver/exports.h"
#include "driver/queues.h"

namespace tessera::cuda::driver {
namespace {

thread_local std::vector<ContextHandle> context_stack;  // below the current one

void retain(ContextObject& context) {
  ++context.retained;
}

// The last release ends the context: its work is done before.
void release(Simulator& simulator, ContextObject& context) {
  require(context.retained > 0, kInvalidContext);
  if (context.retained == 1) run_all(simulator, &context);
  --context.retained;
}

}  // namespace

extern "C" {

Result cuInit(unsigned flags) {
  return entry("cuInit", [&](Simulator& simulator) {
    require(flags == 0);
    require(simulator.settings.devices > 0, kNoDevice);
    simulator.initialised = true;
  });
}

Result cuDriverGetVersion(int* version) {
  return entry("cuDriverGetVersion", [&](Simulator&) {
    require(version != nullptr);
    *version = 13000;
  });
}

// "If the error code is not recognized, CUDA_ERROR_INVALID_VALUE will be returned and *pStr will be set to the NULL
// address."
Result cuGetErrorName(Result result, const char** name) {
  if (name == nullptr) return kInvalidValue;
  const ErrorName* const found = find_error_name(result);
  *name = found == nullptr ? nullptr : found->name;
  return found == nullptr ? kInvalidValue : kSuccess;
}

Result cuGetErrorString(Result result, const char** text) {
  if (text == nullptr) return kInvalidValue;
  const ErrorName* const found = find_error_name(result);
  *text = found == nullptr ? nullptr : found->text;
  return found == nullptr ? kInvalidValue : kSuccess;
}

Result cuDeviceGetCount(int* count) {
  return entry("cuDeviceGetCount", [&](Simulator& simulator) {
    simulator.require_initialised();
    require(count != nullptr);
    *count = simulator.settings.devices;
  });
}

Result cuDeviceGet(DeviceHandle* device, int ordinal) {
  return entry("cuDeviceGet", [&](Simulator& simulator) {
    simulator.require_initialised();
    require(device != nullptr);
    *device = simulator.context_of(ordinal).device;
  });
}

// "Returns an ASCII string identifying the device dev in the NULL-terminated string pointed to by name. len specifies
// the maximum length of the string that may be returned."
Result cuDeviceGetName(char* name, int bytes, DeviceHandle device) {
  return entry("cuDeviceGetName", [&](Simulator& simulator) {
    simulator.require_initialised();
    require(name != nullptr && bytes > 0);
    simulator.context_of(device);
    std::snprintf(name, static_cast<std::size_t>(bytes), "Simulated %s", simulator.profile().name);
  });
}

Result cuDeviceGetUuid(Uuid* uuid, DeviceHandle device) {
  return entry("cuDeviceGetUuid", [&](Simulator& simulator) {
    simulator.require_initialised();
    require(uuid != nullptr);
    simulator.context_of(device);
    std::memcpy(uuid->bytes, "simulated GPU", 13);
    uuid->bytes[13] = 0;
    uuid->bytes[14] = static_cast<unsigned char>(simulator.settings.capability);
    uuid->bytes[15] = static_cast<unsigned char>(device);
  });
}

Result cuDeviceGetAttribute(int* value, DeviceAttribute attribute, DeviceHandle device) {
  return entry("cuDeviceGetAttribute", [&](Simulator& simulator) {
    simulator.require_initialised();
    require(value != nullptr && attribute > 0 && static_cast<int>(attribute) < 160);
    simulator.context_of(device);
    *value = attribute_of(simulator.profile(), device, attribute);
  });
}

Result cuDeviceTotalMem(std::size_t* bytes, DeviceHandle device) {
  return entry("cuDeviceTotalMem", [&](Simulator& simulator) {
    simulator.require_initialised();
    require(bytes != nullptr);
    simulator.context_of(device);
    *bytes = simulator.memory.bytes_per_device();
  });
}

// "Retains the primary context on the device. Once the user successfully retains the primary context, the primary
// context will be active and available to the user until the user releases it". "Unlike cuCtxCreate() the newly
// retained context is not pushed onto the stack."
Result cuDevicePrimaryCtxRetain(ContextHandle* context, DeviceHandle device) {
  return entry("cuDevicePrimaryCtxRetain", [&](Simulator& simulator) {
    simulator.require_initialised();
    require(context != nullptr);
    retain(simulator.context_of(device));
    *context = &simulator.context_of(device);
  });
}

Result cuDevicePrimaryCtxRelease(DeviceHandle device) {
  return release_entry("cuDevicePrimaryCtxRelease", [&](Simulator& simulator) {
    simulator.require_initialised();
    release(simulator, simulator.context_of(device));
  });
}

// "Binds the specified CUDA context to the calling CPU thread. If ctx is NULL then the CUDA context previously bound to
// the calling CPU thread is unbound and CUDA_SUCCESS is returned."
Result cuCtxSetCurrent(ContextHandle context) {
  return entry("cuCtxSetCurrent", [&](Simulator& simulator) {
    simulator.require_initialised();
    bool known = context == nullptr;
    for (const auto& candidate : simulator.contexts) known = known || candidate.get() == context;
    require(known, kInvalidContext);
    set_current_context(context);
  });
}

Result cuCtxGetCurrent(ContextHandle* context) {
  return entry("cuCtxGetCurrent", [&](Simulator& simulator) {
    simulator.require_initialised();
    require(context != nullptr);
    *context = current_context();
  });
}

// Contexts that programs create are the primary one here: what differs, separate address spaces, is not simulated.
Result cuCtxCreate(ContextHandle* context, unsigned flags, DeviceHandle device) {
  return entry("cuCtxCreate", [&](Simulator& simulator) {
    simulator.require_initialised();
    require(context != nullptr);
    retain(simulator.context_of(device));
    context_stack.push_back(current_context());
    *context = &simulator.context_of(device);
    set_current_context(*context);
  });
}

Result cuCtxDestroy(ContextHandle context) {
  return release_entry("cuCtxDestroy", [&](Simulator& simulator) {
    simulator.require_initialised();
    require(context != nullptr);
    release(simulator, *context);
    if (context->retained == 0 && current_context() == context) set_current_context(nullptr);
  });
}

Result cuCtxPushCurrent(ContextHandle context) {
  return entry("cuCtxPushCurrent", [&](Simulator& simulator) {
    simulator.require_initialised();
    require(context != nullptr, kInvalidContext);
    context_stack.push_back(current_context());
    set_current_context(context);
  });
}

Result cuCtxPopCurrent(ContextHandle* context) {
  return entry("cuCtxPopCurrent", [&](Simulator& simulator) {
    simulator.require_initialised();
    require(current_context() != nullptr, kInvalidContext);
    if (context != nullptr) *context = current_context();
    set_current_context(context_stack.empty() ? nullptr : context_stack.back());
    if (!context_stack.empty()) context_stack.pop_back();
  });
}

Result cuCtxGetDevice(DeviceHandle* device) {
  return entry("cuCtxGetDevice", [&](Simulator& simulator) {
    require(device != nullptr);
    *device = simulator.context().device;
  });
}

Result cuCtxSynchronize() {
  return entry("cuCtxSynchronize", [&](Simulator& simulator) {
    ContextObject& context = simulator.context();
    run_all(simulator, &context);
    require(context.spoilt == kSuccess, context.spoilt);
  });
}

}  // extern "C"

}  // namespace tessera::cuda::driver
