#include "runtime/variables/variable_store.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/cpu_info.h"
#include "base/error.h"

namespace tessera::runtime {
namespace {

// How soon a run that waits for its turn finds that it is to stop.
constexpr std::int64_t kStopCheckNs = 10'000'000;

std::string describe_type(const auto& value) {
  return std::string(name_of(value.dtype())) + to_string(value.shape());
}

bool same_type(const HeldValue& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape();
}

}  // namespace

HeldValue::HeldValue(Tensor tensor, bool writable, std::shared_ptr<MemoryAccount> account, MemoryCharge charge)
    : value_(std::make_shared<Counted>()) {
  value_->dtype = tensor.dtype();
  value_->shape = tensor.shape();
  value_->host = std::move(tensor);
  value_->is_on_host.store(true, std::memory_order_relaxed);
  value_->writable = writable;
  value_->account = std::move(account);
  value_->charge = std::move(charge);
  value_->holders.store(1, std::memory_order_relaxed);
}

HeldValue::HeldValue(Tensor on_device, const backends::Device& device, std::shared_ptr<MemoryAccount> account)
    : value_(std::make_shared<Counted>()) {
  value_->dtype = on_device.dtype();
  value_->shape = on_device.shape();
  value_->device = &device;
  value_->on_device = std::move(on_device);
  value_->account = std::move(account);
  value_->holders.store(1, std::memory_order_relaxed);
}

HeldValue::HeldValue(const HeldValue& other) : value_(other.value_) {
  if (value_ != nullptr) value_->holders.fetch_add(1, std::memory_order_relaxed);
}

HeldValue& HeldValue::operator=(HeldValue other) noexcept {
  std::swap(value_, other.value_);
  return *this;
}

HeldValue::~HeldValue() {
  // What this holder read happened before a run writes to the value.
  if (value_ != nullptr) value_->holders.fetch_sub(1, std::memory_order_acq_rel);
}

bool HeldValue::is_writable(int own_holders) const {
  return value_->writable && value_->holders.load(std::memory_order_acquire) == own_holders;
}

bool HeldValue::is_writable_on(const backends::Device& device, int own_holders) const {
  if (value_->holders.load(std::memory_order_acquire) != own_holders) return false;
  const std::lock_guard lock(value_->mutex);
  return value_->device == &device && value_->on_device.has_value();
}

bool HeldValue::is_on_device_at(const Tensor& tensor) const {
  const std::lock_guard lock(value_->mutex);
  return tensor.shares_storage_with(value_->on_device);
}

void HeldValue::keep_on_host_only() {
  // Nobody else holds the value, so nobody copies it meanwhile.
  if (value_->device == nullptr) return;
  value_->device = nullptr;
  value_->on_device = {};
}

void HeldValue::keep_on_device_only() {
  const std::lock_guard lock(value_->mutex);
  value_->is_on_host.store(false, std::memory_order_relaxed);
  value_->host = {};
  value_->charge = {};
  value_->writable = false;
}

void HeldValue::Counted::copy_to_host() {
  const std::lock_guard lock(mutex);
  if (is_on_host.load(std::memory_order_relaxed)) return;
  Tensor copy = ResultAllocator(account, Purpose::variables).allocate(dtype, shape);
  if (copy.bytes() > 0) {
    const std::unique_ptr<backends::Stream> stream = device->make_stream();
    stream->copy_to_host(copy.mutable_raw(), on_device.raw(), copy.bytes());
    stream->synchronise();
  }
  host = std::move(copy);
  writable = true;
  is_on_host.store(true, std::memory_order_release);
}

Tensor HeldValue::Counted::copy_to_device(const DeviceSpace& space) {
  {
    const std::lock_guard lock(mutex);
    if (on_device.has_value() && device == space.device) return on_device;
  }
  if (!is_on_host.load(std::memory_order_acquire)) copy_to_host();
  const std::lock_guard lock(mutex);
  if (on_device.has_value() && device == space.device) return on_device;
  Tensor copy = allocate_on(space, Purpose::variables, dtype, shape);
  if (copy.bytes() > 0) {
    const std::unique_ptr<backends::Stream> stream = space.device->make_stream();
    stream->copy_to_device(copy.mutable_raw(), host.contents().raw(), copy.bytes());
    stream->synchronise();
  }
  // Runs on another device that hold the value hold its memory there as well.
  device = space.device;
  on_device = copy;
  return copy;
}

Tensor HeldValue::view() const {
  auto holder = std::make_shared<HeldValue>(*this);
  auto* data = const_cast<void*>(tensor().raw());
  return Tensor(tensor().dtype(), tensor().shape(), data, std::move(holder));
}

Variables::Variables(std::shared_ptr<MemoryAccount> account)
    : account_(std::move(account)), memory_(account_, Purpose::variables) {}

std::vector<std::size_t> Variables::declare(const std::vector<ir::Variable>& variables) {
  std::vector<std::size_t> places;
  std::vector<Entry> added;
  std::unique_lock lock(mutex_);
  for (const ir::Variable& variable : variables) {
    const auto known = places_.find(variable.name);
    if (known != places_.end()) {
      const HeldValue& value = entries_[known->second].value;
      require(same_type(value, variable.initial), ErrorKind::invalid_argument,
              "variable '{}' is {} in the model, but {} in the store that it is to share", variable.name,
              describe_type(variable.initial), describe_type(value));
      places.push_back(known->second);
      continue;
    }
    places.push_back(entries_.size() + added.size());
    MemoryCharge charge(account_, Purpose::variables, variable.initial.bytes());
    added.push_back({variable.name, HeldValue(variable.initial, false, account_, std::move(charge))});
  }
  for (Entry& entry : added) {
    places_.emplace(entry.name, entries_.size());
    entries_.push_back(std::move(entry));
  }
  return places;
}

std::size_t Variables::place_of(std::string_view name) const {
  const auto found = places_.find(name);
  require(found != places_.end(), ErrorKind::invalid_argument, "there is no variable '{}'", name);
  return found->second;
}

void Variables::refuse_damaged() const {
  std::vector<std::string_view> names;
  for (const Entry& entry : entries_) {
    if (entry.damaged) names.push_back(entry.name);
  }
  require(names.empty(), ErrorKind::failed,
          "a failed run damaged the variables '{}': set them or restore a snapshot first", fmt::join(names, "', '"));
}

void Variables::notify() {
  for (Clock::Signal* signal : waiting_) signal->notify();
}

void Variables::wait_until(std::unique_lock<std::mutex>& lock, Clock& clock, const base::StopSignal* stop,
                           const std::function<bool()>& ready) {
  if (ready()) return;
  const std::unique_ptr<Clock::Signal> signal = clock.make_signal();
  waiting_.push_back(signal.get());
  try {
    while (!ready()) {
      lock.unlock();
      if (stop == nullptr) signal->wait();
      else signal->wait_until(clock.now_ns() + kStopCheckNs);
      lock.lock();
      if (stop != nullptr) stop->check();
    }
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    std::erase(waiting_, signal.get());
    throw;
  }
  std::erase(waiting_, signal.get());
}

std::vector<std::string> Variables::names() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.name);
  return names;
}

Tensor Variables::get(std::string_view name) {
  HeldValue value;
  {
    std::unique_lock lock(mutex_);
    const std::size_t place = place_of(name);
    wait_until(lock, Clock::steady(), nullptr, [&] { return !writing_; });
    require(!entries_[place].damaged, ErrorKind::failed, "a failed run damaged variable '{}': set it first", name);
    value = entries_[place].value;
  }
  return value.tensor().clone();
}

void Variables::set(std::string_view name, const Tensor& value) {
  std::unique_lock lock(mutex_);
  const std::size_t place = place_of(name);
  const HeldValue& present = entries_[place].value;
  require(same_type(present, value), ErrorKind::invalid_argument, "variable '{}' is {}, but {} is given", name,
          describe_type(present), describe_type(value));
  lock.unlock();
  backends::ExecutionResources resources;
  resources.allocator = &memory_;
  HeldValue next(resources.copy(value), true, account_);
  lock.lock();
  wait_until(lock, Clock::steady(), nullptr, [&] { return !writing_; });
  Entry& entry = entries_[place];
  std::swap(entry.value, next);  // the former value is released without the mutex
  ++entry.times_set;
  entry.damaged = false;
  lock.unlock();
}

std::shared_ptr<const VariableValues> Variables::snapshot() {
  auto values = std::make_shared<VariableValues>();
  values->store = this;
  std::unique_lock lock(mutex_);
  wait_until(lock, Clock::steady(), nullptr, [&] { return !writing_; });
  refuse_damaged();
  for (const Entry& entry : entries_) {
    values->names.push_back(entry.name);
    values->values.push_back(entry.value);
  }
  return values;
}

void Variables::restore(const VariableValues& values) {
  require(values.store == this, ErrorKind::invalid_argument, "the snapshot is of another store of variables");
  std::vector<HeldValue> next = values.values;  // and in the end the former values
  std::unique_lock lock(mutex_);
  wait_until(lock, Clock::steady(), nullptr, [&] { return !writing_; });
  for (std::size_t i = 0; i < next.size(); ++i) {
    std::swap(entries_[i].value, next[i]);
    ++entries_[i].times_set;
    entries_[i].damaged = false;
  }
  lock.unlock();
}

}  // namespace tessera::runtime

namespace tessera {

const std::vector<std::string>& VariableSnapshot::names() const {
  return values_->names;
}

Tensor VariableSnapshot::variable(std::string_view name) const {
  const auto found = std::ranges::find(values_->names, name);
  require(found != values_->names.end(), ErrorKind::invalid_argument, "the snapshot has no variable '{}'", name);
  return values_->values[static_cast<std::size_t>(found - values_->names.begin())].view();
}

VariableStore::VariableStore(std::int64_t memory_limit_bytes)
    : VariableStore(std::make_shared<runtime::Variables>(std::make_shared<runtime::MemoryAccount>(
          memory_limit_bytes > 0 ? memory_limit_bytes : base::usable_memory_bytes() / 10 * 9))) {}

VariableStore::~VariableStore() = default;

std::vector<std::string> VariableStore::names() const {
  return state_->names();
}
Tensor VariableStore::get(std::string_view name) const {
  return state_->get(name);
}
void VariableStore::set(std::string_view name, const Tensor& value) {
  state_->set(name, value);
}
VariableSnapshot VariableStore::snapshot() const {
  return VariableSnapshot(state_->snapshot());
}
void VariableStore::restore(const VariableSnapshot& snapshot) {
  state_->restore(*snapshot.values_);
}
std::int64_t VariableStore::bytes() const {
  return state_->bytes();
}

}  // namespace tessera
