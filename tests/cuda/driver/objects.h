// What the handles of the simulated driver point to, and the operations that wait in its queues.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "backends/cuda/driver/driver_types.h"
#include "backends/cuda/kernels/kernel_table.h"

namespace tessera::cuda::driver {

// A place in a stream: it is passed once everything before it has taken effect.
struct Marker {
  StreamHandle stream = nullptr;
  bool passed = false;
  double time_us = 0;  // virtual, once passed
};
using MarkerPointer = std::shared_ptr<Marker>;  // events, waiting streams and the queue refer to it

// The memory at one end of a copy.
struct Place {
  enum class Kind { device, pinned, pageable } kind = Kind::device;
  std::uint64_t address = 0;
  std::uint64_t pinned_block = 0;  // PinnedMemory::find when the copy was submitted
};

struct Copy {
  Place to, from;
  std::size_t bytes = 0;
  std::shared_ptr<const std::vector<std::byte>> staged;  // the source as it was at submission, else null
};

struct Fill {
  DeviceAddress to = 0;
  unsigned char value = 0;
  std::size_t bytes = 0;
};

// The parameters of a launch, each at a multiple of 64 bytes (TensorMap is aligned so).
struct alignas(64) ParameterSlot {
  std::array<std::byte, 64> bytes;
};

struct Launch {
  const EmulatedKernel* kernel = nullptr;
  emulation::Dim3 grid, block;
  std::size_t dynamic_shared_bytes = 0, shared_limit_bytes = 0;
  std::vector<ParameterSlot> parameters;
};

using Work = std::variant<Copy, Fill, Launch>;

// A node of a graph: work, or nothing for places where dependencies meet.
struct GraphNodeObject {
  std::optional<Work> work;
  int device = 0;
  std::vector<std::size_t> dependencies;  // numbers of earlier nodes
};
using GraphNodes = std::shared_ptr<const std::vector<GraphNodeObject>>;

// A launch of a graph: its nodes run in any order that the dependencies allow.
struct GraphRun {
  GraphNodes nodes;
  std::vector<bool> done;
  std::size_t left = 0;
};

struct Record {
  MarkerPointer marker;
};
struct Wait {
  MarkerPointer marker;
};

struct Operation {
  std::variant<Work, Record, Wait, GraphRun> what;
  double submitted_us = 0;
};

struct ContextObject {
  int device = 0;
  int retained = 0;
  Result spoilt = kSuccess;  // the error that every later call returns
  std::unique_ptr<StreamObject> legacy_stream;
};

// A capture sequence: streams that append nodes to one graph.
struct Capture {
  StreamHandle origin = nullptr;
  std::thread::id thread;
  int mode = 0;
  bool invalidated = false;
  std::unique_ptr<GraphObject> graph;
  std::set<StreamHandle> streams;
};

struct StreamObject {
  ContextObject* context = nullptr;
  std::uint64_t number = 0;  // 0: the legacy stream
  unsigned flags = 0;
  bool destroyed = false;  // it lives on while it has work
  int polls = 0;           // queries that may still say "not ready"
  double time_us = 0;      // when its last operation ended
  std::deque<Operation> queue;
  std::shared_ptr<Capture> capture;       // shared by the streams of the sequence
  std::vector<std::size_t> capture_tail;  // nodes that the next one depends on
};

struct EventObject {
  ContextObject* context = nullptr;
  unsigned flags = 0;
  MarkerPointer marker;  // of its last record; null before
  int polls = 0;
  std::weak_ptr<Capture> capture;  // where the last record was captured
  bool captured = false;
  std::vector<std::size_t> capture_nodes;
};

struct FunctionObject {
  ModuleHandle module = nullptr;
  std::string name;
  const EmulatedKernel* kernel = nullptr;
  int dynamic_shared_bytes = 0;  // the opt-in attribute
};

struct ModuleObject {
  ContextObject* context = nullptr;
  std::string image;
  bool elf = false;
  std::vector<std::unique_ptr<FunctionObject>> functions;
};

struct GraphObject {
  std::vector<GraphNodeObject> nodes;
};

struct GraphExecObject {
  GraphNodes nodes;
  MarkerPointer last_launch;  // null before the first
};

}  // namespace tessera::cuda::driver
