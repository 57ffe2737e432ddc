// The state behind tessera/variable_store.h: values that runs and snapshots hold, and which run may write them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads/stop_signal.h"
#include "ir/graph.h"
#include "runtime/memory/device_blocks.h"
#include "runtime/memory/memory.h"
#include "tessera/clock.h"
#include "tessera/variable_store.h"

namespace tessera::runtime {

class VariableRun;

// A value of a variable with the number of its holders: variables, runs and snapshots. Only a run writes to it, and
// only while it and the variable are the only holders.
//
// The value is in host memory, in the memory of one device, or in both with the same elements. A copy that is missing
// is made when somebody asks for it, and stays until a run writes to the other one.
class HeldValue {
 public:
  HeldValue() = default;
  // `writable`: whether the memory is the store's own. `account`: for host memory of a copy made later. `charge`: of
  // memory that its owner does not charge by itself.
  HeldValue(Tensor tensor, bool writable, std::shared_ptr<MemoryAccount> account, MemoryCharge charge = {});
  // A value in the device's memory, which is the store's own.
  HeldValue(Tensor on_device, const backends::Device& device, std::shared_ptr<MemoryAccount> account);
  HeldValue(const HeldValue& other);
  HeldValue(HeldValue&& other) noexcept = default;
  HeldValue& operator=(HeldValue other) noexcept;
  ~HeldValue();

  DType dtype() const { return value_->dtype; }
  const Shape& shape() const { return value_->shape; }
  // The value in host memory. It is copied from the device if need be, which may take long: call it without a mutex
  // that others wait for. Throws Error(over_budget), and what the device reports.
  const Tensor& tensor() const {
    if (!value_->is_on_host.load(std::memory_order_acquire)) value_->copy_to_host();
    return value_->host;
  }
  // The value in the memory of the device, likewise.
  Tensor on_device(const DeviceSpace& space) const { return value_->copy_to_device(space); }
  // Whether the tensor is this value in the memory of the device.
  bool is_on_device_at(const Tensor& tensor) const;
  bool same_as(const HeldValue& other) const { return value_ == other.value_; }
  // Whether the host memory may be written to if so many holders are the caller's own. What former holders did happened
  // before. The value is in host memory.
  bool is_writable(int own_holders) const;
  // Whether the memory of the device may be written to, likewise.
  bool is_writable_on(const backends::Device& device, int own_holders) const;
  // Drops the other copy, because this one is about to be written to by the only holder.
  void keep_on_host_only();
  void keep_on_device_only();
  // A tensor that is a holder.
  Tensor view() const;

 private:
  struct Counted {
    DType dtype = DType::undefined;
    Shape shape;
    std::mutex mutex;  // of the copies that are made and dropped
    std::atomic<bool> is_on_host{false};
    Tensor host;
    bool writable = false;  // the host memory
    MemoryCharge charge;    // of the host memory
    const backends::Device* device = nullptr;
    Tensor on_device;                        // no tensor: not there
    std::shared_ptr<MemoryAccount> account;  // of host memory
    std::atomic<int> holders{0};

    void copy_to_host();
    Tensor copy_to_device(const DeviceSpace& space);
  };
  std::shared_ptr<Counted> value_;
};

struct VariableValues {
  const Variables* store = nullptr;  // that they are of; not to be dereferenced
  std::vector<std::string> names;
  std::vector<HeldValue> values;
};

// Thread-safe. Values change only as a whole run changes them, or by set and restore.
class Variables {
 public:
  explicit Variables(std::shared_ptr<MemoryAccount> account);
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

  // The places of these variables in the store. Those that are not there are added with their initial values, which are
  // never written to. Throws Error: invalid_argument (another type or shape than the store has), over_budget; the store
  // is as before then.
  std::vector<std::size_t> declare(const std::vector<ir::Variable>& variables);

  // As tessera::VariableStore has them. set() takes the tensor's memory, which must come from memory().
  std::vector<std::string> names() const;
  Tensor get(std::string_view name);
  void set(std::string_view name, const Tensor& value);
  std::shared_ptr<const VariableValues> snapshot();
  void restore(const VariableValues& values);
  std::int64_t bytes() const { return account_->used(Purpose::variables); }

  // Host memory of next values, charged as variables.
  backends::TensorAllocator& memory() { return memory_; }

 private:
  friend class VariableRun;

  struct Entry {
    std::string name;
    HeldValue value;
    std::int64_t times_set = 0;  // by set and restore
    bool damaged = false;
  };

  std::size_t place_of(std::string_view name) const;  // with the mutex held
  void refuse_damaged() const;                        // with the mutex held
  // Waits, in the time of the clock, until ready() holds, which is asked with the mutex held whenever something
  // changed. Throws what `stop` throws.
  void wait_until(std::unique_lock<std::mutex>& lock, Clock& clock, const base::StopSignal* stop,
                  const std::function<bool()>& ready);
  void notify();  // with the mutex held

  const std::shared_ptr<MemoryAccount> account_;
  ResultAllocator memory_;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> places_;
  std::deque<const VariableRun*> turns_;  // runs that update variables, the one whose turn it is first
  bool writing_ = false;                  // a run is writing over values; nobody may begin to hold them
  std::vector<Clock::Signal*> waiting_;
};

}  // namespace tessera::runtime
