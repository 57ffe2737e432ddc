// The objects behind the opaque handles of tessera.h, and the boundary at which exceptions become status codes.
#pragma once

#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "base/error.h"
#include "tessera/device.h"
#include "tessera/model.h"
#include "tessera/session.h"
#include "tessera/tessera.h"

// Each handle begins with a tag of its type, so that a handle of another type is detected. The tag is erased when the
// handle is freed.
struct tessera_error {
  static constexpr std::uint32_t kTag = 0x54530001;
  std::uint32_t tag = kTag;
  tessera_status status = TESSERA_OK;
  std::string message;
};

struct tessera_value_info {
  static constexpr std::uint32_t kTag = 0x54530002;
  std::uint32_t tag = kTag;
  tessera::ValueDescription description;
};

struct tessera_model {
  explicit tessera_model(tessera::Model loaded);

  static constexpr std::uint32_t kTag = 0x54530003;
  std::uint32_t tag = kTag;
  tessera::Model model;
  std::vector<tessera_value_info> inputs, outputs;
};

struct tessera_value {
  static constexpr std::uint32_t kTag = 0x54530004;
  std::uint32_t tag = kTag;
  tessera::Value value;
  bool is_writable = false;  // made by tessera_value_wrap, so that outputs may be bound to it
};

struct tessera_session_options {
  static constexpr std::uint32_t kTag = 0x54530005;
  std::uint32_t tag = kTag;
  tessera::SessionOptions options;
};

struct tessera_session {
  static constexpr std::uint32_t kTag = 0x54530006;
  std::uint32_t tag = kTag;
  tessera::Session session;
  std::vector<std::string> output_names;  // in the model's order
};

struct tessera_cancellation {
  static constexpr std::uint32_t kTag = 0x54530007;
  std::uint32_t tag = kTag;
  tessera::Cancellation cancellation;
};

struct tessera_devices {
  static constexpr std::uint32_t kTag = 0x54530009;
  std::uint32_t tag = kTag;
  std::vector<tessera::DeviceDescription> devices;
};

struct tessera_run_options {
  static constexpr std::uint32_t kTag = 0x54530008;
  std::uint32_t tag = kTag;
  tessera::RunOptions options;
};

namespace tessera::capi {

// Stores the exception that is being handled in *error, unless `error` is null, and returns its status. Never throws.
tessera_status report_exception(tessera_error** error) noexcept;

// Runs the body of a function of the interface; an exception becomes a status and an error object.
template <typename Body>
tessera_status guarded(tessera_error** error, Body body) noexcept {
  if (error != nullptr) *error = nullptr;
  try {
    body();
    return TESSERA_OK;
  } catch (...) {
    return report_exception(error);
  }
}

template <typename Handle>
bool is_valid(const Handle* handle) {
  return handle != nullptr && handle->tag == Handle::kTag;
}

// Checks and returns the handle. Throws Error(invalid_argument) with the parameter's name.
template <typename Handle>
Handle& checked(Handle* handle, const char* parameter, const char* type) {
  require(handle != nullptr, ErrorKind::invalid_argument, "{} is NULL, expected a {}", parameter, type);
  require(handle->tag == Handle::kTag, ErrorKind::invalid_argument,
          "{} is no {}: it is a handle of another type, or was freed", parameter, type);
  return *handle;
}

// A pointer that must not be null: an array with elements, a text, the place for a result.
template <typename T>
T* required(T* pointer, const char* parameter) {
  require(pointer != nullptr, ErrorKind::invalid_argument, "{} is NULL", parameter);
  return pointer;
}

// The place for a new handle. It is set to NULL until the handle is made.
template <typename Handle>
Handle*& result_place(Handle** place, const char* parameter) {
  *required(place, parameter) = nullptr;
  return *place;
}

template <typename Handle>
void free_handle(Handle* handle) noexcept {
  if (!is_valid(handle)) return;
  handle->tag = 0;
  delete handle;
}

}  // namespace tessera::capi
