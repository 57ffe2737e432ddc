// The policy `fifo`: one run at a time, in order of arrival, from its first step to its last.
#include "share/policy.h"

namespace tessera::share {
namespace {

class Fifo final : public Policy {
 public:
  bool goes_by_runs() const override { return true; }
  Run* next(const DeviceState& device) override {
    if (device.runs.empty()) return nullptr;
    // One that arrived before the run in progress may have become known since.
    const auto begun = std::ranges::find_if(device.runs, &Run::started);
    Run* const first = begun != device.runs.end() ? *begun : device.runs.front();
    return first->waits ? first : nullptr;
  }
};

}  // namespace

std::unique_ptr<Policy> make_fifo() {
  return std::make_unique<Fifo>();
}

}  // namespace tessera::share
