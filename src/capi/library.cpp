// The version, logging and errors of the C interface.
#include <exception>
#include <stdexcept>

#include "capi/handles.h"
#include "tessera/log.h"
#include "tessera/version.h"

namespace tessera::capi {
namespace {

// Returned if there is no memory for an error object. Its tag is not that of an error, so that freeing it does nothing.
tessera_error& out_of_memory_error() {
  static tessera_error& error = *new tessera_error{0, TESSERA_OVER_BUDGET, "the system has no more memory"};
  return error;
}
// Made when the library is loaded, while there is enough memory.
[[maybe_unused]] const tessera_error& kept_for_later = out_of_memory_error();

tessera_status store(tessera_error** error, tessera_status status, const char* message) noexcept {
  if (error == nullptr) return status;
  try {
    *error = new tessera_error{tessera_error::kTag, status, message};
  } catch (...) {
    *error = &out_of_memory_error();
  }
  return status;
}

}  // namespace

tessera_status report_exception(tessera_error** error) noexcept {
  try {
    throw;
  } catch (const Error& fault) {
    return store(error, exit_code(fault.kind()), fault.what());
  } catch (const std::bad_alloc&) {
    return store(error, TESSERA_OVER_BUDGET, "the system has no more memory");
  } catch (const std::length_error&) {
    return store(error, TESSERA_OVER_BUDGET, "the call takes more memory than there can be");
  } catch (const std::exception& fault) {
    try {
      return store(error, TESSERA_INTERNAL,
                   (std::string("internal error (a bug in Tessera, please report it): ") + fault.what()).c_str());
    } catch (...) {
      return store(error, TESSERA_INTERNAL, "internal error (a bug in Tessera, please report it)");
    }
  } catch (...) {
    return store(error, TESSERA_INTERNAL, "internal error (a bug in Tessera, please report it)");
  }
}

}  // namespace tessera::capi

using namespace tessera::capi;

const char* tessera_version(void) {
  return TESSERA_VERSION;
}
int32_t tessera_abi_version(void) {
  return TESSERA_ABI_VERSION;
}

tessera_status tessera_set_log_handler(tessera_log_handler handler, void* user, tessera_error** error) {
  return guarded(error, [&] {
    if (handler == nullptr) return tessera::set_log_handler({});
    tessera::set_log_handler([handler, user](tessera::LogLevel level, std::string_view message) {
      handler(static_cast<int32_t>(level), std::string(message).c_str(), user);
    });
  });
}

tessera_status tessera_error_status(const tessera_error* error) {
  return error != nullptr ? error->status : TESSERA_OK;
}
const char* tessera_error_message(const tessera_error* error) {
  return error != nullptr ? error->message.c_str() : "";
}
void tessera_error_free(tessera_error* error) {
  free_handle(error);
}
