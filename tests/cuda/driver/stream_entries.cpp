// Entry points of streams, events and captures.
#include <algorithm>

#include "driver/capture.h"
#include "driver/exports.h"
#include "driver/queues.h"

namespace tessera::cuda::driver {
namespace {

constexpr unsigned kDisableTiming = 2;  // CU_EVENT_DISABLE_TIMING

// Polls say "not ready" a few times, and then find the work done: so a host that polls makes progress.
void poll(int& polls) {
  if (polls <= 0) return;
  --polls;
  throw Failure{kNotReady};
}

EventObject& idle_event(Simulator& simulator, EventHandle handle) {
  EventObject& event = simulator.event(handle);
  refuse_captured_event(event);
  refuse_unsafe_call(simulator);
  return event;
}

}  // namespace

extern "C" {

Result cuStreamCreate(StreamHandle* stream, unsigned flags) {
  return entry("cuStreamCreate", [&](Simulator& simulator) {
    ContextObject& context = simulator.context();
    require(stream != nullptr && flags <= kStreamNonBlocking);
    auto made = std::make_unique<StreamObject>();
    made->context = &context;
    made->number = simulator.next_number++;
    made->flags = flags;
    *stream = made.get();
    simulator.streams[*stream] = std::move(made);
  });
}

// "In case the device is still doing work in the stream hStream when cuStreamDestroy() is called, the function will
// return immediately and the resources associated with hStream will be released automatically once the device has
// completed all work in hStream."
Result cuStreamDestroy(StreamHandle stream) {
  return release_entry("cuStreamDestroy", [&](Simulator& simulator) {
    const auto found = simulator.streams.find(stream);
    require(found != simulator.streams.end() && !found->second->destroyed, kInvalidHandle);
    StreamObject& object = *found->second;
    const Result spoilt = object.context->spoilt;
    if (object.capture != nullptr) {
      object.capture->invalidated = true;
      object.capture->streams.erase(stream);
    }
    object.destroyed = true;
    if (object.queue.empty()) simulator.streams.erase(found);
    require(spoilt == kSuccess, spoilt);
  });
}

Result cuStreamSynchronize(StreamHandle stream) {
  return entry("cuStreamSynchronize", [&](Simulator& simulator) {
    StreamObject& object = simulator.stream(stream);
    refuse_capturing_stream(object);
    refuse_legacy_stream_during_capture(simulator, object);
    refuse_unsafe_call(simulator);
    synchronize(simulator, object);
  });
}

// "Returns CUDA_SUCCESS if all operations in the stream specified by hStream have completed, or CUDA_ERROR_NOT_READY if
// not."
Result cuStreamQuery(StreamHandle stream) {
  return entry("cuStreamQuery", [&](Simulator& simulator) {
    StreamObject& object = simulator.stream(stream);
    refuse_capturing_stream(object);
    refuse_legacy_stream_during_capture(simulator, object);
    refuse_unsafe_call(simulator);
    if (!object.queue.empty()) poll(object.polls);
    synchronize(simulator, object);
  });
}

// "Makes all future work submitted to hStream wait for all work captured in hEvent." An event without a record
// "represents an empty set of work".
Result cuStreamWaitEvent(StreamHandle stream, EventHandle event, unsigned flags) {
  return entry("cuStreamWaitEvent", [&](Simulator& simulator) {
    StreamObject& object = simulator.stream(stream);
    EventObject& awaited = simulator.event(event);
    require(flags == 0);
    if (capture_wait(object, awaited)) return;
    refuse_legacy_stream_during_capture(simulator, object);
    if (awaited.marker != nullptr && !awaited.marker->passed) enqueue(simulator, object, Wait{awaited.marker});
  });
}

Result cuStreamBeginCapture(StreamHandle stream, int mode) {
  return entry("cuStreamBeginCapture",
               [&](Simulator& simulator) { begin_capture(simulator, simulator.stream(stream), mode); });
}

Result cuStreamEndCapture(StreamHandle stream, GraphHandle* graph) {
  return entry("cuStreamEndCapture", [&](Simulator& simulator) {
    require(graph != nullptr);
    *graph = nullptr;
    const auto found = simulator.streams.find(stream);
    require(found != simulator.streams.end(), kInvalidHandle);
    std::unique_ptr<GraphObject> captured = end_capture(simulator, *found->second);
    *graph = captured.get();
    simulator.graphs[*graph] = std::move(captured);
  });
}

Result cuStreamIsCapturing(StreamHandle stream, int* status) {
  return entry("cuStreamIsCapturing", [&](Simulator& simulator) {
    require(status != nullptr);
    *status = capture_status(simulator, simulator.stream(stream));
  });
}

Result cuEventCreate(EventHandle* event, unsigned flags) {
  return entry("cuEventCreate", [&](Simulator& simulator) {
    ContextObject& context = simulator.context();
    require(event != nullptr && flags < 8);
    auto made = std::make_unique<EventObject>();
    made->context = &context;
    made->flags = flags;
    *event = made.get();
    simulator.events[*event] = std::move(made);
  });
}

// "An event may be destroyed before it is complete (i.e., while cuEventQuery() would return CUDA_ERROR_NOT_READY). In
// this case, the call does not block on completion of the event".
Result cuEventDestroy(EventHandle event) {
  return release_entry("cuEventDestroy", [&](Simulator& simulator) {
    const auto found = simulator.events.find(event);
    require(found != simulator.events.end(), kInvalidHandle);
    const Result spoilt = found->second->context->spoilt;
    simulator.events.erase(found);
    require(spoilt == kSuccess, spoilt);
  });
}

// "Captures in hEvent the contents of hStream at the time of this call. hEvent and hStream must be from the same
// context otherwise CUDA_ERROR_INVALID_HANDLE is returned." "cuEventRecord() can be called multiple times on the same
// event and will overwrite the previously captured state."
Result cuEventRecord(EventHandle event, StreamHandle stream) {
  return entry("cuEventRecord", [&](Simulator& simulator) {
    EventObject& object = simulator.event(event);
    StreamObject& recorded = simulator.stream(stream);
    require(object.context == recorded.context, kInvalidHandle);
    refuse_legacy_stream_during_capture(simulator, recorded);
    if (recorded.capture != nullptr) return capture_record(recorded, object);
    object.captured = false;
    object.capture.reset();
    object.marker = record(simulator, recorded);
    object.polls = 1 + static_cast<int>(simulator.choose(4));
  });
}

// "Returns CUDA_SUCCESS if all captured work has been completed, or CUDA_ERROR_NOT_READY if any captured work is
// incomplete. If cuEventRecord() has not been called on hEvent [...] CUDA_SUCCESS"
Result cuEventQuery(EventHandle event) {
  return entry("cuEventQuery", [&](Simulator& simulator) {
    EventObject& object = idle_event(simulator, event);
    if (object.marker == nullptr) return;
    if (!object.marker->passed) poll(object.polls);
    run_until(simulator, *object.marker);
    require(object.context->spoilt == kSuccess, object.context->spoilt);
  });
}

Result cuEventSynchronize(EventHandle event) {
  return entry("cuEventSynchronize", [&](Simulator& simulator) {
    EventObject& object = idle_event(simulator, event);
    if (object.marker == nullptr) return;
    run_until(simulator, *object.marker);
    require(object.context->spoilt == kSuccess, object.context->spoilt);
  });
}

// "If cuEventRecord() has not been called on either event then CUDA_ERROR_INVALID_HANDLE is returned. If
// cuEventRecord() has been called on both events but one or both of them has not yet been completed [...],
// CUDA_ERROR_NOT_READY is returned. If either event was created with the CU_EVENT_DISABLE_TIMING flag, then this
// function will return CUDA_ERROR_INVALID_HANDLE."
Result cuEventElapsedTime(float* milliseconds, EventHandle from, EventHandle to) {
  return entry("cuEventElapsedTime", [&](Simulator& simulator) {
    require(milliseconds != nullptr);
    EventObject &begin = simulator.event(from), &end = simulator.event(to);
    refuse_captured_event(begin);
    refuse_captured_event(end);
    require(begin.marker != nullptr && end.marker != nullptr, kInvalidHandle);
    require(((begin.flags | end.flags) & kDisableTiming) == 0, kInvalidHandle);
    require(begin.marker->passed && end.marker->passed, kNotReady);
    *milliseconds = static_cast<float>((end.marker->time_us - begin.marker->time_us) / 1000);
  });
}

}  // extern "C"

}  // namespace tessera::cuda::driver
