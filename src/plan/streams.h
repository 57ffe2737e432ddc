// Divides what a plan enqueues on its device among streams, and orders the streams by events.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"
#include "plan/share_storage.h"

namespace tessera::backends {
struct DeviceProperties;
}

namespace tessera::plan {

// Which steps come before which for the sake of their operands, their places in the streams, and what the host waits
// for: the order that holds wherever the arena puts the values.
class StreamOrder {
 public:
  StreamOrder() = default;
  // `known`: by step and stream, one more than the last step of the stream that comes before the step, itself included.
  StreamOrder(const Plan& plan, std::vector<std::int32_t> known);

  // The last step, in the order of the plan, that may run while or before this one does.
  std::int64_t last_beside(const Plan& plan, std::size_t step) const;
  // The lifetimes of slots on the device for which memory is used again only by steps that come after all of its users.
  Lifetimes apart(const Plan& plan, Lifetimes lifetimes) const;

 private:
  std::vector<std::int32_t> known_;
  std::vector<std::vector<std::int32_t>> on_stream_;  // the steps of each
};

// Sets Step::stream and Plan::streams. A kernel goes on where a producer of its operands was the last, and another
// branch begins on a stream of its own, as long as the device has some (DeviceProperties::streams). Copies of a
// direction have a stream of their own if there are kernels that they could overlap and the device has an engine for
// them. Steps that write over variables, and those behind them, are on stream 0. Expects the final order of steps and
// aliases of slots. On a device of one stream, and on a host, nothing changes.
StreamOrder assign_streams(Plan& plan, const backends::DeviceProperties& device);

// Sets Step::stream_waits and Step::is_stream_awaited: an event wherever two steps of different streams use the same
// bytes and one of them writes, unless other events order them already. The first step that writes over a variable
// comes after all others. Expects the places of slots and awaited copies.
void find_stream_waits(Plan& plan);

}  // namespace tessera::plan
