#include "backends/cuda/cuda_stream.h"

#include <cmath>

#include "base/error.h"

namespace tessera::backends::cuda {
namespace {

driver::DeviceAddress device_address(const void* address) {
  return reinterpret_cast<driver::DeviceAddress>(address);
}

// Destroys a captured graph at the end of its scope.
class Graph {
 public:
  explicit Graph(const DriverApi& api) : api_(api) {}
  ~Graph() {
    if (handle != nullptr) api_.cuGraphDestroy(handle);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  driver::GraphHandle handle = nullptr;

 private:
  const DriverApi& api_;
};

}  // namespace

CudaEvent::CudaEvent(CudaMachine& machine) : machine_(machine) {
  const CurrentContext current(machine_);
  machine_.check(machine_.api().cuEventCreate(&handle_, driver::kEventDefault), "cuEventCreate");
}

CudaEvent::~CudaEvent() {
  machine_.api().cuEventDestroy(handle_);
}

bool CudaEvent::done() const {
  const driver::Result result = machine_.api().cuEventQuery(handle_);
  if (result == driver::kNotReady) return false;
  machine_.check(result, "cuEventQuery");
  return true;
}

void CudaEvent::wait() const {
  machine_.check(machine_.api().cuEventSynchronize(handle_), "cuEventSynchronize");
}

std::int64_t CudaEvent::time_ns() const {
  if (!recorded_) return 0;
  float milliseconds = 0;
  machine_.check(machine_.api().cuEventElapsedTime(&milliseconds, machine_.origin(), handle_), "cuEventElapsedTime");
  return std::llround(static_cast<double>(milliseconds) * 1e6);
}

CudaStream::CudaStream(CudaMachine& machine)
    : machine_(machine), number_(machine.next_stream()), index_fault_(machine.take_index_fault()) {
  const CurrentContext current(machine_);
  // Non-blocking: the default stream of another library in this process orders nothing of ours.
  const driver::Result created = machine_.api().cuStreamCreate(&handle_, driver::kStreamNonBlocking);
  if (created != driver::kSuccess) machine_.give_back(index_fault_);
  machine_.check(created, "cuStreamCreate");
}

CudaStream::~CudaStream() {
  machine_.api().cuStreamSynchronize(handle_);
  machine_.api().cuStreamDestroy(handle_);
  machine_.give_back(index_fault_);
}

void CudaStream::copy_to_device(void* to, const void* from, std::int64_t bytes) {
  if (bytes == 0) return;
  const CurrentContext current(machine_);
  machine_.check(machine_.api().cuMemcpyHtoDAsync(device_address(to), from, static_cast<std::size_t>(bytes), handle_),
                 "cuMemcpyHtoDAsync");
  machine_.count_copy(true, bytes);
}

void CudaStream::copy_to_host(void* to, const void* from, std::int64_t bytes) {
  if (bytes == 0) return;
  const CurrentContext current(machine_);
  machine_.check(machine_.api().cuMemcpyDtoHAsync(to, device_address(from), static_cast<std::size_t>(bytes), handle_),
                 "cuMemcpyDtoHAsync");
  machine_.count_copy(false, bytes);
}

void CudaStream::copy_within(void* to, const void* from, std::int64_t bytes) {
  if (bytes == 0) return;
  const CurrentContext current(machine_);
  machine_.check(machine_.api().cuMemcpyDtoDAsync(device_address(to), device_address(from),
                                                  static_cast<std::size_t>(bytes), handle_),
                 "cuMemcpyDtoDAsync");
}

void CudaStream::fill(void* to, std::byte value, std::int64_t bytes) {
  if (bytes == 0) return;
  const CurrentContext current(machine_);
  machine_.check(machine_.api().cuMemsetD8Async(device_address(to), static_cast<unsigned char>(value),
                                                static_cast<std::size_t>(bytes), handle_),
                 "cuMemsetD8Async");
}

void CudaStream::record(Event& event) {
  auto& recorded = const_cast<CudaEvent&>(event_of(machine_, event));
  const CurrentContext current(machine_);
  machine_.check(machine_.api().cuEventRecord(recorded.handle(), handle_), "cuEventRecord");
  recorded.set_recorded();
}

void CudaStream::wait(const Event& event) {
  const CurrentContext current(machine_);
  machine_.check(machine_.api().cuStreamWaitEvent(handle_, event_of(machine_, event).handle(), 0), "cuStreamWaitEvent");
}

void CudaStream::synchronise() {
  const CurrentContext current(machine_);
  machine_.check(machine_.api().cuStreamSynchronize(handle_), "cuStreamSynchronize");
  if (index_fault_->is_set == 0) return;
  const tessera::cuda::IndexFault fault = *index_fault_;
  *index_fault_ = {};
  fail(ErrorKind::failed, "device '{}': index {} is outside [{}, {})", machine_.name(), fault.index, -fault.size,
       fault.size);
}

void CudaStream::begin_capture() {
  const CurrentContext current(machine_);
  machine_.check(machine_.api().cuStreamBeginCapture(handle_, driver::kCaptureThreadLocal), "cuStreamBeginCapture");
}

std::unique_ptr<Recording> CudaStream::end_capture(std::unique_ptr<Recording> previous) {
  const CurrentContext current(machine_);
  Graph graph(machine_.api());
  machine_.check(machine_.api().cuStreamEndCapture(handle_, &graph.handle), "cuStreamEndCapture");
  if (auto* const recording = dynamic_cast<CudaRecording*>(previous.get());
      recording != nullptr && recording->update(graph.handle)) {
    machine_.count_recording(true);
    return previous;
  }
  auto recording = std::make_unique<CudaRecording>(machine_, graph.handle);
  machine_.count_recording(false);
  return recording;
}

bool CudaStream::is_capturing() const {
  int status = driver::kCaptureStatusNone;
  machine_.check(machine_.api().cuStreamIsCapturing(handle_, &status), "cuStreamIsCapturing");
  return status != driver::kCaptureStatusNone;
}

void CudaStream::launch(std::string_view kernel, const LaunchShape& shape, void** arguments) {
  const driver::FunctionHandle function = machine_.function(kernel, shape.shared_bytes);
  const CurrentContext current(machine_);
  machine_.check(
      machine_.api().cuLaunchKernel(function, shape.grid.x, shape.grid.y, shape.grid.z, shape.block.x, shape.block.y,
                                    shape.block.z, shape.shared_bytes, handle_, arguments, nullptr),
      "cuLaunchKernel");
  machine_.count_launch();
}

CudaRecording::CudaRecording(CudaMachine& machine, driver::GraphHandle graph) : machine_(machine) {
  machine_.check(machine_.api().cuGraphInstantiateWithFlags(&handle_, graph, 0), "cuGraphInstantiateWithFlags");
}

CudaRecording::~CudaRecording() {
  machine_.api().cuGraphExecDestroy(handle_);
}

void CudaRecording::replay(Stream& stream) {
  const CurrentContext current(machine_);
  machine_.check(machine_.api().cuGraphLaunch(handle_, stream_of(machine_, stream).handle()), "cuGraphLaunch");
  machine_.count_launch();
  machine_.count_replay();
}

bool CudaRecording::update(driver::GraphHandle graph) {
  driver::GraphUpdateInfo info{};
  const driver::Result result = machine_.api().cuGraphExecUpdate(handle_, graph, &info);
  if (result == driver::kGraphExecUpdateFailure) return false;
  machine_.check(result, "cuGraphExecUpdate");
  return true;
}

CudaStream& stream_of(const CudaMachine& machine, Stream& stream) {
  auto* const ours = dynamic_cast<CudaStream*>(&stream);
  require(ours != nullptr && &ours->machine() == &machine, ErrorKind::invalid_argument,
          "the stream does not belong to device '{}'", machine.name());
  return *ours;
}

const CudaEvent& event_of(const CudaMachine& machine, const Event& event) {
  const auto* const ours = dynamic_cast<const CudaEvent*>(&event);
  require(ours != nullptr && &ours->machine() == &machine, ErrorKind::invalid_argument,
          "the event does not belong to device '{}'", machine.name());
  return *ours;
}

}  // namespace tessera::backends::cuda
