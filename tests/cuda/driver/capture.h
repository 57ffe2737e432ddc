// Captures of streams into graphs, and what the manual forbids while they are under way.
#pragma once

#include "driver/simulator.h"

namespace tessera::cuda::driver {

void begin_capture(Simulator& simulator, StreamObject& stream, int mode);
// Fails, and drops the graph, where the capture is not legal.
std::unique_ptr<GraphObject> end_capture(Simulator& simulator, StreamObject& stream);
// CUstreamCaptureStatus
int capture_status(Simulator& simulator, StreamObject& stream);

// For a stream that captures.
void capture_work(Simulator& simulator, StreamObject& stream, Work work);
void capture_record(StreamObject& stream, EventObject& event);
void capture_graph(StreamObject& stream, const GraphNodes& nodes);
// For a stream that captures, or an event that was captured; returns false if neither is.
bool capture_wait(StreamObject& stream, EventObject& event);

// A stream is destroyed, synchronised or queried while it captures.
void refuse_capturing_stream(StreamObject& stream);
// An event is synchronised or queried though its last record was captured.
void refuse_captured_event(const EventObject& event);
void refuse_legacy_stream_during_capture(Simulator& simulator, StreamObject& stream);
// Calls that are "potentially unsafe" while the calling thread captures.
void refuse_unsafe_call(Simulator& simulator);

}  // namespace tessera::cuda::driver
