#include "driver/queues.h"

#include <algorithm>

#include "driver/capture.h"

namespace tessera::cuda::driver {
namespace {

bool turn_has_come(const StreamObject& stream) {
  const auto* const wait = std::get_if<Wait>(&stream.queue.front().what);
  return wait == nullptr || wait->marker->passed;
}

std::size_t choose_node(Simulator& simulator, const GraphRun& run) {
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < run.nodes->size(); ++i) {
    const std::vector<std::size_t>& needed = (*run.nodes)[i].dependencies;
    if (!run.done[i] && std::all_of(needed.begin(), needed.end(), [&](std::size_t node) { return run.done[node]; }))
      ready.push_back(i);
  }
  return ready[simulator.choose(ready.size())];
}

// After a fault the device does nothing more: "any further CUDA work will return the same error".
void run_work(Simulator& simulator, StreamObject& stream, const Work& work, int device) {
  ContextObject& context = simulator.context_of(device);
  if (context.spoilt != kSuccess) return;
  try {
    execute(simulator, work, device);
    ++simulator.executed;
  } catch (const Failure& failure) {
    context.spoilt = failure.result;
  }
  stream.time_us += duration_us(simulator, work);
}

// Returns whether the operation has ended.
struct Step {
  Simulator& simulator;
  StreamObject& stream;

  bool operator()(const Work& work) const {
    run_work(simulator, stream, work, stream.context->device);
    return true;
  }
  bool operator()(const Record& record) const {
    record.marker->passed = true;
    record.marker->time_us = stream.time_us;
    return true;
  }
  bool operator()(const Wait& wait) const {
    stream.time_us = std::max(stream.time_us, wait.marker->time_us);
    return true;
  }
  bool operator()(GraphRun& run) const {
    if (run.left > 0) {
      const std::size_t node = choose_node(simulator, run);
      if ((*run.nodes)[node].work) run_work(simulator, stream, *(*run.nodes)[node].work, (*run.nodes)[node].device);
      run.done[node] = true;
      --run.left;
    }
    return run.left == 0;
  }
};

void step(Simulator& simulator, StreamObject& stream) {
  Operation& operation = stream.queue.front();
  stream.time_us = std::max(stream.time_us, operation.submitted_us);
  if (!std::visit(Step{simulator, stream}, operation.what)) return;
  stream.queue.pop_front();
  if (stream.destroyed && stream.queue.empty()) simulator.streams.erase(&stream);
}

// Every stream with a queue, the legacy ones first, the others in the order of their creation.
std::vector<StreamObject*> busy_streams(Simulator& simulator, const ContextObject* context) {
  std::vector<StreamObject*> streams;
  for (const auto& owner : simulator.contexts) streams.push_back(owner->legacy_stream.get());
  for (const auto& [handle, stream] : simulator.streams) streams.push_back(stream.get());
  std::erase_if(streams, [&](const StreamObject* stream) {
    return stream->queue.empty() || (context != nullptr && stream->context != context);
  });
  std::stable_sort(streams.begin(), streams.end(),
                   [](const StreamObject* a, const StreamObject* b) { return a->number < b->number; });
  return streams;
}

// Any operation of any stream whose turn has come.
void run_any(Simulator& simulator) {
  std::vector<StreamObject*> streams = busy_streams(simulator, nullptr);
  std::erase_if(streams, [](const StreamObject* stream) { return !turn_has_come(*stream); });
  step(simulator, *streams[simulator.choose(streams.size())]);
}

// Only what the marker depends on. A wait refers to a record that was submitted before it, so this ends.
void run_needed(Simulator& simulator, const Marker& marker) {
  std::vector<const Marker*> needed = {&marker};
  while (!needed.empty()) {
    if (needed.back()->passed) {
      needed.pop_back();
      continue;
    }
    StreamObject& stream = *needed.back()->stream;
    if (turn_has_come(stream)) {
      step(simulator, stream);
    } else {
      needed.push_back(std::get<Wait>(stream.queue.front().what).marker.get());
    }
  }
}

// "The legacy default stream [...] synchronizes with other streams": its operations wait for those that blocking
// streams of the context have got before, and blocking streams wait for it.
void order_with_legacy_stream(Simulator& simulator, StreamObject& stream) {
  if ((stream.flags & kStreamNonBlocking) != 0) return;
  const auto wait_for = [&](StreamObject& other) {
    if (&other == &stream || other.queue.empty() || (other.flags & kStreamNonBlocking) != 0) return;
    MarkerPointer marker = std::make_shared<Marker>(Marker{&other});
    other.queue.push_back({Record{marker}, simulator.host_time_us});
    stream.queue.push_back({Wait{std::move(marker)}, simulator.host_time_us});
  };
  if (stream.number != 0) return wait_for(*stream.context->legacy_stream);
  for (StreamObject* const other : busy_streams(simulator, stream.context)) wait_for(*other);
}

}  // namespace

void enqueue(Simulator& simulator, StreamObject& stream, decltype(Operation::what) what) {
  order_with_legacy_stream(simulator, stream);
  stream.queue.push_back({std::move(what), simulator.host_time_us});
  stream.polls = static_cast<int>(simulator.choose(4));
}

void submit(Simulator& simulator, StreamObject& stream, Work work) {
  refuse_legacy_stream_during_capture(simulator, stream);
  if (stream.capture != nullptr) return capture_work(simulator, stream, std::move(work));
  // "For transfers from pageable host memory to device memory, host memory is copied to a staging buffer immediately
  // (no device synchronization is performed). The function will return once the pageable buffer has been copied to the
  // staging memory. The DMA transfer to final destination may not have completed."
  auto* const copy = std::get_if<Copy>(&work);
  if (copy != nullptr && copy->from.kind == Place::Kind::pageable) {
    const auto* const source = reinterpret_cast<const std::byte*>(copy->from.address);
    copy->staged = std::make_shared<const std::vector<std::byte>>(source, source + copy->bytes);
  }
  const bool to_pageable = copy != nullptr && copy->to.kind == Place::Kind::pageable;
  enqueue(simulator, stream, std::move(work));
  // "For transfers from device memory to pageable host memory, the function will return only after the copy has
  // completed."
  if (to_pageable) synchronize(simulator, stream);
}

MarkerPointer record(Simulator& simulator, StreamObject& stream) {
  MarkerPointer marker = std::make_shared<Marker>(Marker{&stream});
  enqueue(simulator, stream, Record{marker});
  return marker;
}

void run_until(Simulator& simulator, const Marker& marker) {
  if (simulator.settings.seed == 0) {
    run_needed(simulator, marker);
  } else {
    while (!marker.passed) run_any(simulator);
  }
  simulator.memory.open_access(-1);
  simulator.host_time_us = std::max(simulator.host_time_us, marker.time_us);
}

void run_all(Simulator& simulator, const ContextObject* context) {
  for (;;) {
    const std::vector<StreamObject*> streams = busy_streams(simulator, context);
    if (streams.empty()) break;
    StreamObject& stream = *streams[simulator.choose(streams.size())];
    if (turn_has_come(stream)) {
      step(simulator, stream);
    } else {
      const MarkerPointer marker = std::get<Wait>(stream.queue.front().what).marker;
      run_until(simulator, *marker);
    }
  }
  simulator.memory.open_access(-1);
}

void synchronize(Simulator& simulator, StreamObject& stream) {
  if (!stream.queue.empty()) {
    const MarkerPointer marker = std::make_shared<Marker>(Marker{&stream});
    stream.queue.push_back({Record{marker}, simulator.host_time_us});
    run_until(simulator, *marker);
  }
  require(stream.context->spoilt == kSuccess, stream.context->spoilt);
}

}  // namespace tessera::cuda::driver
