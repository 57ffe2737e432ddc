// Binds information about the library and the machine, and the library's messages.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "gil.h"
#include "report/inspect/devices.h"
#include "share/policy.h"
#include "tessera/device.h"
#include "tessera/log.h"
#include "tessera/share.h"
#include "tessera/train.h"
#include "tessera/version.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tessera::python {
namespace {

// Messages are kept in a list, because a thread that computes cannot wait for Python's lock while it holds their lock.
constexpr std::size_t kMostMessages = 1000;
std::atomic<bool> has_messages{false};
std::mutex messages_mutex;
std::vector<std::pair<LogLevel, std::string>>& kept_messages() {
  static auto* const messages = new std::vector<std::pair<LogLevel, std::string>>();
  return *messages;
}

nb::dict build_info() {
  nb::dict info;
  info["version"] = TESSERA_VERSION;
  info["compiler"] = std::string(
#ifdef __clang__
      "clang "
#else
      "gcc "
#endif
      __VERSION__);
  info["build_type"] =
#ifdef NDEBUG
      "release";
#else
      "debug";
#endif
  info["nanobind"] = std::to_string(NB_VERSION_MAJOR) + "." + std::to_string(NB_VERSION_MINOR) + "." +
                     std::to_string(NB_VERSION_PATCH);
#ifdef Py_LIMITED_API
  info["python_abi"] = "abi3";
#else
  info["python_abi"] = "cp" + std::to_string(PY_MAJOR_VERSION) + std::to_string(PY_MINOR_VERSION);
#endif
  info["machine"] = describe_machine();
  info["devices"] = device_names();
  info["policies"] = policy_names();
  info["losses"] = loss_names();
  info["server"] =
#ifdef TESSERA_WITH_SERVER
      true;
#else
      false;
#endif
  return info;
}

// Whether a message is to be passed on. A warning that the process has given before, such as one about each of many
// equal models, is dropped. Needs the lock.
bool is_new(LogLevel level, const std::string& message) {
  static auto* const warned = new std::set<std::string>();
  if (level != LogLevel::warning) return true;
  if (warned->size() > kMostMessages) warned->clear();
  return warned->insert(message).second;
}

}  // namespace

void keep_messages() {
  set_log_handler([](LogLevel level, std::string_view message) {
    const std::lock_guard lock(messages_mutex);
    if (kept_messages().size() < kMostMessages) kept_messages().emplace_back(level, message);
    has_messages.store(true, std::memory_order_release);
  });
}

void pass_messages() {
  if (!has_messages.load(std::memory_order_acquire)) return;
  std::vector<std::pair<LogLevel, std::string>> messages;
  {
    const std::lock_guard lock(messages_mutex);
    messages.swap(kept_messages());
    has_messages.store(false, std::memory_order_release);
  }
  const nb::object logger = nb::module_::import_("logging").attr("getLogger")("tessera");
  for (const auto& [level, message] : messages) {
    if (is_new(level, message))
      logger.attr(level == LogLevel::warning ? "warning" : "info")("%s", python_text(message));
  }
}

void bind_library(nb::module_& module) {
  module.def("build_info", &build_info);
  module.def("devices_json", [] { return report::devices_json(devices()); });
  module.def("_refuse_other_threads", &refuse_other_threads);
  module.attr("__version__") = TESSERA_VERSION;
  nb::module_::import_("atexit").attr("register")(module.attr("_refuse_other_threads"));
}

}  // namespace tessera::python
