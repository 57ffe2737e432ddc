// The effects of operations on memory.
#include <algorithm>
#include <cstring>

#include "driver/queues.h"

namespace tessera::cuda::driver {
namespace {

[[noreturn]] void fault(Simulator& simulator, Result result, std::string what) {
  simulator.last_fault = std::move(what);
  throw Failure{result};
}

void check_place(Simulator& simulator, const Place& place, std::size_t bytes, int device, bool writes) {
  switch (place.kind) {
    case Place::Kind::device:
      if (!simulator.memory.accessible(place.address, bytes, device, writes))
        fault(simulator, kIllegalAddress, "a copy or fill of device memory that is not mapped, or not accessible");
      break;
    case Place::Kind::pinned:
      if (simulator.pinned.find(reinterpret_cast<const void*>(place.address), bytes) != place.pinned_block)
        fault(simulator, kIllegalAddress, "a copy from or to pinned memory that was freed");
      break;
    case Place::Kind::pageable:
      break;
  }
}

struct Execute {
  Simulator& simulator;
  int device;

  void operator()(const Copy& copy) const {
    check_place(simulator, copy.to, copy.bytes, device, true);
    if (copy.staged == nullptr) check_place(simulator, copy.from, copy.bytes, device, false);
    const auto* const source =
        copy.staged != nullptr ? copy.staged->data() : reinterpret_cast<const std::byte*>(copy.from.address);
    std::memmove(reinterpret_cast<void*>(copy.to.address), source, copy.bytes);
  }

  void operator()(const Fill& fill) const {
    check_place(simulator, {Place::Kind::device, fill.to}, fill.bytes, device, true);
    std::memset(reinterpret_cast<void*>(fill.to), fill.value, fill.bytes);
  }

  void operator()(const Launch& launch) const {
    emulation::LaunchOptions options;
    options.grid = launch.grid;
    options.block = launch.block;
    options.dynamic_shared_bytes = launch.dynamic_shared_bytes;
    options.shared_limit_bytes = launch.shared_limit_bytes;
    options.seed = simulator.settings.seed == 0 ? 0 : simulator.random();
    options.landing = static_cast<emulation::Landing>(simulator.choose(3));
    std::vector<ParameterSlot> parameters = launch.parameters;
    std::vector<void*> pointers;
    std::size_t slot = 0;
    for (const emulation::ParameterLayout& layout : launch.kernel->parameters) {
      pointers.push_back(&parameters[slot]);
      slot += (layout.bytes + sizeof(ParameterSlot) - 1) / sizeof(ParameterSlot);
    }
    try {
      emulation::run_grid(options, [&] { launch.kernel->call(pointers.data()); });
    } catch (const emulation::KernelFault& error) {
      const std::string what = error.what();
      const bool address = what.find("an access to global memory") != std::string::npos;
      fault(simulator, address ? kIllegalAddress : kLaunchFailed, std::string(launch.kernel->name) + ": " + what);
    }
  }
};

}  // namespace

void execute(Simulator& simulator, const Work& work, int device) {
  simulator.memory.open_access(device);
  std::visit(Execute{simulator, device}, work);
}

// A rough model, so that times grow with the work: 12 GB/s between host and device, 500 GB/s on the device, 20 ns per
// block of a launch, and 5 microseconds for everything.
double duration_us(const Simulator& simulator, const Work& work) {
  constexpr double kOverhead = 5;
  if (const auto* const copy = std::get_if<Copy>(&work)) {
    const bool on_device = copy->to.kind == Place::Kind::device && copy->from.kind == Place::Kind::device;
    return kOverhead + static_cast<double>(copy->bytes) / (on_device ? 500e3 : 12e3);
  }
  if (const auto* const fill = std::get_if<Fill>(&work)) return kOverhead + static_cast<double>(fill->bytes) / 500e3;
  const Launch& launch = std::get<Launch>(work);
  return kOverhead + 0.02 * launch.grid.x * launch.grid.y * launch.grid.z;
}

}  // namespace tessera::cuda::driver
