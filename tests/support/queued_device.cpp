#include "support/queued_device.h"

#include <cstring>
#include <deque>
#include <functional>
#include <vector>

#include "backends/cpu/cpu_device.h"
#include "base/error.h"
#include "base/numbers/float_state.h"
#include "base/numbers/units.h"
#include "ops/op_table.h"

namespace tessera::test {
namespace {

using backends::KernelContext;

class BookedMemory final : public backends::DeviceMemory {
 public:
  explicit BookedMemory(std::int64_t capacity) : capacity_(capacity) {}
  ~BookedMemory() override {
    for (const auto& [address, bytes] : blocks_) std::free(address);
  }
  void* allocate(std::int64_t bytes, backends::Stream*) override {
    const std::lock_guard lock(mutex_);
    require(bytes <= capacity_ - in_use_, ErrorKind::over_budget, "the queued device has no {} left",
            base::format_bytes(bytes));
    const auto size = static_cast<std::size_t>((bytes + 256) / 256 * 256);
    void* address = std::aligned_alloc(256, size);
    std::memset(address, 0xcd, size);
    blocks_[static_cast<std::byte*>(address)] = bytes;
    in_use_ += bytes;
    return address;
  }
  void free(void* address, backends::Stream*) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(static_cast<std::byte*>(address));
    in_use_ -= found->second;
    blocks_.erase(found);
    std::free(address);
  }
  std::int64_t capacity_bytes() const override { return capacity_; }
  std::int64_t in_use_bytes() const override {
    const std::lock_guard lock(mutex_);
    return in_use_;
  }
  // All memory of the host is as good as pinned: nothing of this device is copied before somebody waits.
  void* allocate_host(std::int64_t bytes) override {
    const std::lock_guard lock(mutex_);
    void* const address = std::aligned_alloc(64, static_cast<std::size_t>((bytes + 64) / 64 * 64));
    pinned_[address] = bytes;
    return address;
  }
  void free_host(void* address) noexcept override {
    const std::lock_guard lock(mutex_);
    pinned_.erase(address);
    std::free(address);
  }
  bool is_pinned(const void*) const override { return true; }
  std::int64_t pinned_bytes() const override {
    const std::lock_guard lock(mutex_);
    std::int64_t bytes = 0;
    for (const auto& [address, size] : pinned_) bytes += size;
    return bytes;
  }
  bool contains(const void* address) const override {
    const std::lock_guard lock(mutex_);
    const auto after = blocks_.upper_bound(static_cast<std::byte*>(const_cast<void*>(address)));
    if (after == blocks_.begin()) return false;
    const auto& [first, bytes] = *std::prev(after);
    return static_cast<const std::byte*>(address) < first + std::max<std::int64_t>(bytes, 1);
  }

 private:
  const std::int64_t capacity_;
  mutable std::mutex mutex_;
  std::map<std::byte*, std::int64_t> blocks_;
  std::int64_t in_use_ = 0;
  std::map<void*, std::int64_t> pinned_;
};

using Work = std::function<void()>;

class QueuedStream;

class QueuedEvent final : public backends::Event {
 public:
  bool done() const override { return stream == nullptr; }
  void wait() const override;
  std::int64_t time_ns() const override { return time; }

  mutable QueuedStream* stream = nullptr;  // that has not passed it yet
  std::int64_t time = 0;
};

class QueuedStream final : public backends::Stream {
 public:
  explicit QueuedStream(QueuedDevice::Counts& counts) : counts_(counts) {}
  ~QueuedStream() override {
    try {
      drain();
    } catch (const Error&) {
    }
  }
  void copy_to_device(void* to, const void* from, std::int64_t bytes) override {
    copy(counts_.to_device, to, from, bytes);
  }
  void copy_to_host(void* to, const void* from, std::int64_t bytes) override { copy(counts_.to_host, to, from, bytes); }
  void copy_within(void* to, const void* from, std::int64_t bytes) override { copy(counts_.within, to, from, bytes); }
  void fill(void* to, std::byte value, std::int64_t bytes) override {
    enqueue([=] { std::memset(to, std::to_integer<int>(value), static_cast<std::size_t>(bytes)); });
  }
  void record(backends::Event& event) override {
    auto& queued = static_cast<QueuedEvent&>(event);
    queued.stream = this;
    enqueue([this, &queued] {
      queued.stream = nullptr;
      queued.time = clock_ += 1000;
    });
  }
  void wait(const backends::Event& event) override {
    enqueue([&event] { event.wait(); });
  }
  void synchronise() override { drain(); }
  void begin_capture() override { capturing_ = true; }
  std::unique_ptr<backends::Recording> end_capture(std::unique_ptr<backends::Recording> previous) override;
  bool is_capturing() const override { return capturing_; }

  void enqueue(Work work) { (capturing_ ? recorded_ : queue_).push_back(std::move(work)); }
  void drain() {
    while (!queue_.empty()) {
      const Work work = std::move(queue_.front());
      queue_.pop_front();
      try {
        work();
      } catch (...) {
        queue_.clear();
        throw;
      }
    }
  }
  QueuedDevice::Counts& counts() { return counts_; }

 private:
  void copy(std::atomic<int>& count, void* to, const void* from, std::int64_t bytes) {
    enqueue([=, &count] {
      ++count;
      std::memcpy(to, from, static_cast<std::size_t>(bytes));
    });
  }

  QueuedDevice::Counts& counts_;
  bool capturing_ = false;
  std::deque<Work> queue_, recorded_;
  std::int64_t clock_ = 0;
};

void QueuedEvent::wait() const {
  if (stream != nullptr) stream->drain();
}

class QueuedRecording final : public backends::Recording {
 public:
  explicit QueuedRecording(std::deque<Work> work) : work_(std::move(work)) {}
  void replay(backends::Stream& stream) override {
    auto& queued = static_cast<QueuedStream&>(stream);
    ++queued.counts().replays;
    for (const Work& work : work_) queued.enqueue(work);
  }

 private:
  std::deque<Work> work_;
};

std::unique_ptr<backends::Recording> QueuedStream::end_capture(std::unique_ptr<backends::Recording>) {
  capturing_ = false;
  ++counts_.recordings;
  return std::make_unique<QueuedRecording>(std::exchange(recorded_, {}));
}

// What a launch keeps of the context that it was made from.
struct Launch {
  ir::Node node;
  const ops::OpDef* op;
  std::vector<Value> inputs, outputs;
  std::vector<ir::ValueType> types;
  backends::ExecutionResources resources;
  std::byte* scratch;
};

class QueuedKernel final : public backends::Kernel {
 public:
  QueuedKernel(backends::KernelPointer kernel, const QueuedDevice& device)
      : kernel_(std::move(kernel)), device_(device) {}
  std::int64_t scratch_bytes() const override { return kernel_->scratch_bytes(); }
  void run(KernelContext& context) const override {
    auto launch = std::make_shared<Launch>();
    launch->node = context.node();
    launch->op = &context.op();
    for (std::size_t i = 0; i < context.input_count(); ++i)
      launch->inputs.push_back(context.has_input(i) ? context.input_value(i) : Value());
    for (std::size_t i = 0; i < context.output_count(); ++i) {
      launch->outputs.push_back(context.wants_output(i) ? Value(context.output(i)) : Value());
      launch->types.push_back(context.output_type(i));
    }
    launch->resources = context.resources();
    launch->resources.stop = nullptr;
    launch->resources.stream = nullptr;
    launch->scratch = context.scratch();
    static_cast<QueuedStream*>(context.stream())->enqueue([this, launch] { compute(*launch); });
  }

 private:
  void compute(Launch& launch) const {
    const int left = device_.kernels_until_failure().load();
    if (left >= 0) --device_.kernels_until_failure();
    require(left != 0, ErrorKind::failed, "the queued device failed at {}", launch.node.op);
    ++device_.counts().kernels;
    std::vector<const Value*> inputs;
    for (const Value& input : launch.inputs) inputs.push_back(&input);
    std::vector<Value> outputs = launch.outputs;
    if (launch.resources.seed_cell != nullptr) launch.resources.seed = *launch.resources.seed_cell;
    KernelContext context(launch.node, *launch.op, inputs, outputs, launch.types, launch.resources);
    context.set_scratch(launch.scratch);
    const base::FlushedDenormals flushed(true);
    kernel_->run(context);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const bool moved = launch.outputs[i].is_tensor() && launch.outputs[i].tensor().bytes() > 0 &&
                         outputs[i].tensor().raw() != launch.outputs[i].tensor().raw();
      require(!moved, ErrorKind::failed, "{} put its result elsewhere", launch.node.op);
    }
  }

  backends::KernelPointer kernel_;
  const QueuedDevice& device_;
};

}  // namespace

QueuedDevice::QueuedDevice(std::set<std::string, std::less<>> lacks, std::int64_t capacity_bytes,
                           const backends::Device* fallback)
    : lacks_(std::move(lacks)), fallback_(fallback), memory_(std::make_unique<BookedMemory>(capacity_bytes)) {}
QueuedDevice::~QueuedDevice() = default;

const backends::Device& QueuedDevice::host_fallback() const {
  return fallback_ != nullptr ? *fallback_ : backends::cpu_device();
}

std::span<const backends::KernelEntry* const> QueuedDevice::kernels_for(std::string_view op) const {
  if (lacks_.contains(op)) return {};
  return backends::cpu_device().kernels_for(op);
}

backends::KernelPointer QueuedDevice::make_kernel(const backends::KernelEntry& entry, const ops::NodeView& view,
                                                  backends::WeightStore& weights) const {
  return std::make_unique<QueuedKernel>(backends::make_kernel(entry, view, weights, properties()), *this);
}

std::unique_ptr<backends::Stream> QueuedDevice::make_stream() const {
  return std::make_unique<QueuedStream>(counts_);
}

std::unique_ptr<backends::Event> QueuedDevice::make_event() const {
  return std::make_unique<QueuedEvent>();
}

}  // namespace tessera::test
