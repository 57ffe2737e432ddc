// The list of devices of the C interface.
#include "capi/handles.h"

using namespace tessera::capi;

namespace {

const tessera::DeviceDescription* device_at(const tessera_devices* devices, size_t index) {
  return is_valid(devices) && index < devices->devices.size() ? &devices->devices[index] : nullptr;
}

const char* text_of(const tessera_devices* devices, size_t index, std::string tessera::DeviceDescription::* member) {
  const tessera::DeviceDescription* const device = device_at(devices, index);
  return device != nullptr ? (device->*member).c_str() : "";
}

}  // namespace

tessera_status tessera_devices_new(tessera_devices** devices, tessera_error** error) {
  return guarded(error, [&] {
    tessera_devices*& place = result_place(devices, "devices");
    place = new tessera_devices{tessera_devices::kTag, tessera::devices()};
  });
}

void tessera_devices_free(tessera_devices* devices) {
  free_handle(devices);
}

size_t tessera_devices_count(const tessera_devices* devices) {
  return is_valid(devices) ? devices->devices.size() : 0;
}

const char* tessera_device_name(const tessera_devices* devices, size_t index) {
  return text_of(devices, index, &tessera::DeviceDescription::name);
}

const char* tessera_device_product(const tessera_devices* devices, size_t index) {
  return text_of(devices, index, &tessera::DeviceDescription::product);
}

const char* tessera_device_uuid(const tessera_devices* devices, size_t index) {
  return text_of(devices, index, &tessera::DeviceDescription::uuid);
}

const char* tessera_device_instruction_set(const tessera_devices* devices, size_t index) {
  return text_of(devices, index, &tessera::DeviceDescription::instruction_set);
}

int64_t tessera_device_memory_bytes(const tessera_devices* devices, size_t index) {
  const tessera::DeviceDescription* const device = device_at(devices, index);
  return device != nullptr ? device->memory_bytes : 0;
}

int32_t tessera_device_multiprocessors(const tessera_devices* devices, size_t index) {
  const tessera::DeviceDescription* const device = device_at(devices, index);
  return device != nullptr ? device->multiprocessors : 0;
}
