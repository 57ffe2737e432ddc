#include "driver/capture.h"

#include <algorithm>

namespace tessera::cuda::driver {
namespace {

// "When an invalid operation is attempted while a stream is being captured, any associated capture graphs are
// invalidated. When a capture graph is invalidated, further use of any streams that are being captured or captured
// events associated with the capture graph is invalid and will return an error, until stream capture is ended with
// cudaStreamEndCapture()."
[[noreturn]] void invalidate(Capture& capture, Result result) {
  capture.invalidated = true;
  throw Failure{result};
}

Capture& valid_capture(StreamObject& stream) {
  require(!stream.capture->invalidated, kStreamCaptureInvalidated);
  return *stream.capture;
}

void append(StreamObject& stream, std::optional<Work> work) {
  Capture& capture = valid_capture(stream);
  capture.graph->nodes.push_back({std::move(work), stream.context->device, std::move(stream.capture_tail)});
  stream.capture_tail = {capture.graph->nodes.size() - 1};
}

// Marks the nodes that the given ones depend on, and these.
std::vector<bool> ancestors(const GraphObject& graph, const std::vector<std::size_t>& nodes) {
  std::vector<bool> marked(graph.nodes.size(), false);
  for (const std::size_t node : nodes) marked[node] = true;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    if (!marked[i]) continue;
    for (const std::size_t before : graph.nodes[i].dependencies) marked[before] = true;
  }
  return marked;
}

void leave_streams(Simulator& simulator, Capture& capture) {
  for (const StreamHandle handle : capture.streams) {
    const auto found = simulator.streams.find(handle);
    if (found == simulator.streams.end() || found->second->capture.get() != &capture) continue;
    if (handle != capture.origin) found->second->capture.reset();
    found->second->capture_tail.clear();
  }
}

}  // namespace

// "Capture may not be initiated if stream is CU_STREAM_LEGACY. Capture must be ended on the same stream in which it was
// initiated, and it may only be initiated if the stream is not already in capture mode."
void begin_capture(Simulator& simulator, StreamObject& stream, int mode) {
  require(mode >= 0 && mode <= 2);
  require(stream.number != 0, kStreamCaptureUnsupported);
  require(stream.capture == nullptr, kIllegalState);
  stream.capture = std::make_shared<Capture>();
  stream.capture->origin = &stream;
  stream.capture->thread = std::this_thread::get_id();
  stream.capture->mode = mode;
  stream.capture->graph = std::make_unique<GraphObject>();
  stream.capture->streams.insert(&stream);
  stream.capture_tail.clear();
}

// "Capture must have been initiated on hStream via a call to cuStreamBeginCapture. If capture was invalidated, due to a
// violation of the rules of stream capture, then a NULL graph will be returned. If the mode argument to
// cuStreamBeginCapture was not CU_STREAM_CAPTURE_MODE_RELAXED, this call must be from the same thread as
// cuStreamBeginCapture."
std::unique_ptr<GraphObject> end_capture(Simulator& simulator, StreamObject& stream) {
  require(stream.capture != nullptr, kIllegalState);
  const std::shared_ptr<Capture> capture = stream.capture;
  require(capture->origin == &stream, kStreamCaptureUnmatched);
  if (capture->mode != 2 && capture->thread != std::this_thread::get_id())
    invalidate(*capture, kStreamCaptureWrongThread);
  // "This error indicates that the capture sequence contains a fork that was not joined to the primary stream."
  const std::vector<bool> joined = ancestors(*capture->graph, stream.capture_tail);
  bool unjoined = false;
  for (const StreamHandle handle : capture->streams) {
    for (const std::size_t node : handle->capture == capture ? handle->capture_tail : std::vector<std::size_t>())
      unjoined = unjoined || !joined[node];
  }
  leave_streams(simulator, *capture);
  stream.capture.reset();
  require(!capture->invalidated, kStreamCaptureInvalidated);
  require(!unjoined, kStreamCaptureUnjoined);
  return std::move(capture->graph);
}

int capture_status(Simulator& simulator, StreamObject& stream) {
  // "Note that, if this is called on CU_STREAM_LEGACY (the "null stream") while a blocking stream in the same context
  // is capturing, it will return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT". "The blocking stream capture is not invalidated."
  if (stream.number == 0) {
    for (const auto& [handle, other] : simulator.streams)
      require(other->capture == nullptr || other->context != stream.context || (other->flags & kStreamNonBlocking) != 0,
              kStreamCaptureImplicit);
  }
  if (stream.capture == nullptr) return kCaptureStatusNone;
  return stream.capture->invalidated ? kCaptureStatusInvalidated : kCaptureStatusActive;
}

void capture_work(Simulator& simulator, StreamObject& stream, Work work) {
  valid_capture(stream);
  append(stream, std::move(work));
}

void capture_record(StreamObject& stream, EventObject& event) {
  valid_capture(stream);
  event.captured = true;
  event.capture = stream.capture;
  event.capture_nodes = stream.capture_tail;
}

// A graph that is launched into a capture becomes part of the one that is captured.
void capture_graph(StreamObject& stream, const GraphNodes& nodes) {
  Capture& capture = valid_capture(stream);
  append(stream, std::nullopt);
  const std::size_t entrance = capture.graph->nodes.size() - 1, first = entrance + 1;
  std::vector<std::size_t> all;
  for (GraphNodeObject node : *nodes) {
    for (std::size_t& before : node.dependencies) before += first;
    if (node.dependencies.empty()) node.dependencies.push_back(entrance);
    all.push_back(capture.graph->nodes.size());
    capture.graph->nodes.push_back(std::move(node));
  }
  if (!all.empty()) stream.capture_tail = std::move(all);
}

// "If the event was recorded in a capturing stream, the waiting stream joins the capture sequence" (fork); a second
// wait joins the branches. "CUDA_ERROR_STREAM_CAPTURE_MERGE: [...] a merge of two independent capture sequences";
// "CUDA_ERROR_STREAM_CAPTURE_ISOLATION: [...] a dependency would have been created which crosses the capture sequence
// boundary."
bool capture_wait(StreamObject& stream, EventObject& event) {
  const std::shared_ptr<Capture> from = event.captured ? event.capture.lock() : nullptr;
  if (stream.capture == nullptr && !event.captured) return false;
  if (stream.capture != nullptr) valid_capture(stream);
  if (stream.capture != nullptr && (!event.captured || from == nullptr))
    invalidate(*stream.capture, kStreamCaptureIsolation);
  require(from != nullptr, kStreamCaptureIsolation);
  require(!from->invalidated, kStreamCaptureInvalidated);
  if (stream.capture != nullptr && stream.capture != from) {
    from->invalidated = true;
    invalidate(*stream.capture, kStreamCaptureMerge);
  }
  if (stream.capture == nullptr) {
    if (stream.number == 0) invalidate(*from, kStreamCaptureImplicit);
    stream.capture = from;
    stream.capture_tail.clear();
    from->streams.insert(&stream);
  }
  std::vector<std::size_t>& tail = stream.capture_tail;
  for (const std::size_t node : event.capture_nodes) {
    if (std::find(tail.begin(), tail.end(), node) == tail.end()) tail.push_back(node);
  }
  return true;
}

// "It is invalid to synchronize or query the execution status of a stream which is being captured or a captured event,
// because they do not represent items scheduled for execution."
void refuse_capturing_stream(StreamObject& stream) {
  if (stream.capture != nullptr) invalidate(*stream.capture, kStreamCaptureUnsupported);
}

void refuse_captured_event(const EventObject& event) {
  if (!event.captured) return;
  if (const std::shared_ptr<Capture> capture = event.capture.lock()) capture->invalidated = true;
  throw Failure{kCapturedEvent};
}

// "When a blocking stream is capturing, the legacy stream is in an unusable state until the blocking stream capture is
// terminated. The legacy stream is not supported for stream capture, but attempted use would have an implicit
// dependency on the capturing stream(s)."
void refuse_legacy_stream_during_capture(Simulator& simulator, StreamObject& stream) {
  if (stream.number != 0) return;
  for (const auto& [handle, other] : simulator.streams) {
    if (other->capture != nullptr && other->context == stream.context && (other->flags & kStreamNonBlocking) == 0)
      invalidate(*other->capture, kStreamCaptureImplicit);
  }
}

// cuThreadExchangeStreamCaptureMode: "CU_STREAM_CAPTURE_MODE_GLOBAL: [...] If the local thread has an ongoing capture
// sequence that was not initiated with CU_STREAM_CAPTURE_MODE_RELAXED at cuStreamBeginCapture, or if any other thread
// has a concurrent capture sequence initiated with CU_STREAM_CAPTURE_MODE_GLOBAL, this thread is prohibited from
// potentially unsafe API calls. CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: If the local thread has an ongoing capture
// sequence not initiated with CU_STREAM_CAPTURE_MODE_RELAXED, it is prohibited from potentially unsafe API calls.
// Concurrent capture sequences in other threads are ignored."
void refuse_unsafe_call(Simulator& simulator) {
  for (const auto& [handle, stream] : simulator.streams) {
    if (stream->capture == nullptr || stream->capture->mode == 2) continue;
    if (stream->capture->mode == 0 || stream->capture->thread == std::this_thread::get_id())
      invalidate(*stream->capture, kStreamCaptureUnsupported);
  }
}

}  // namespace tessera::cuda::driver
