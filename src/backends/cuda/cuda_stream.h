// Streams, events and recordings of a GPU: thin, because the contract of backends/stream.h is CUDA's own.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>

#include "backends/cuda/machine.h"
#include "backends/stream.h"

namespace tessera::backends::cuda {

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(CudaMachine& machine);
  ~CudaEvent() override;
  bool done() const override;
  void wait() const override;
  std::int64_t time_ns() const override;

  const CudaMachine& machine() const { return machine_; }
  driver::EventHandle handle() const { return handle_; }
  void set_recorded() { recorded_ = true; }

 private:
  CudaMachine& machine_;
  driver::EventHandle handle_ = nullptr;
  std::atomic<bool> recorded_{false};
};

class CudaStream final : public Stream {
 public:
  explicit CudaStream(CudaMachine& machine);
  ~CudaStream() override;

  void copy_to_device(void* to, const void* from, std::int64_t bytes) override;
  void copy_to_host(void* to, const void* from, std::int64_t bytes) override;
  void copy_within(void* to, const void* from, std::int64_t bytes) override;
  void fill(void* to, std::byte value, std::int64_t bytes) override;
  void record(Event& event) override;
  void wait(const Event& event) override;
  void synchronise() override;
  void begin_capture() override;
  std::unique_ptr<Recording> end_capture(std::unique_ptr<Recording> previous) override;
  bool is_capturing() const override;

  // Enqueues a kernel. `arguments` points to one address per parameter of the kernel; the values are copied.
  void launch(std::string_view kernel, const LaunchShape& shape, void** arguments);
  // Enqueues a kernel of one parameter.
  template <typename Parameters>
  void launch_with(std::string_view kernel, const LaunchShape& shape, Parameters parameters) {
    void* arguments[] = {&parameters};
    launch(kernel, shape, arguments);
  }

  // Where kernels of this stream report an index outside its axis; synchronise() throws Error(failed) for it.
  tessera::cuda::IndexFault* index_fault() const { return index_fault_; }
  CudaMachine& machine() const { return machine_; }
  driver::StreamHandle handle() const { return handle_; }
  // Distinguishes the streams of a machine.
  int number() const { return number_; }

 private:
  CudaMachine& machine_;
  driver::StreamHandle handle_ = nullptr;
  const int number_;
  tessera::cuda::IndexFault* const index_fault_;
};

class CudaRecording final : public Recording {
 public:
  CudaRecording(CudaMachine& machine, driver::GraphHandle graph);
  ~CudaRecording() override;
  void replay(Stream& stream) override;
  // Returns whether the recording took the arguments of the graph, which must have the same operations in the same
  // order: "Updates the node parameters in the instantiated graph specified by hGraphExec with the node parameters in a
  // topologically identical graph specified by hGraph."
  bool update(driver::GraphHandle graph);

 private:
  CudaMachine& machine_;
  driver::GraphExecHandle handle_ = nullptr;
};

// The stream or event as one of the machine's. Throws Error(invalid_argument) if it belongs to another device.
CudaStream& stream_of(const CudaMachine& machine, Stream& stream);
const CudaEvent& event_of(const CudaMachine& machine, const Event& event);

}  // namespace tessera::backends::cuda
