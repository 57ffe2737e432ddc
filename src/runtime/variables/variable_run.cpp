#include "runtime/variables/variable_run.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/error.h"

namespace tessera::runtime {

VariableRun::VariableRun(Variables& store, std::span<const std::size_t> places, bool updates, RunControl& control)
    : store_(store),
      places_(places),
      updates_(updates),
      written_over_(places.size(), false),
      written_(places.size(), false),
      next_(places.size()) {
  const auto ready = [&] { return !store_.writing_ && (!updates_ || store_.turns_.front() == this); };
  std::optional<WithoutCore> without_core;  // takes a core again when the mutex is free
  std::unique_lock lock(store_.mutex_);
  if (updates_) store_.turns_.push_back(this);
  try {
    if (!ready()) {
      lock.unlock();
      without_core.emplace(control);
      lock.lock();
      store_.wait_until(lock, *control.clock, control.resources.stop, ready);
    }
    const bool damaged = std::ranges::any_of(places, [&](std::size_t place) { return store_.entries_[place].damaged; });
    if (damaged) store_.refuse_damaged();
    for (const std::size_t place : places) {
      held_.push_back(store_.entries_[place].value);
      times_set_.push_back(store_.entries_[place].times_set);
    }
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    end_turn();
    throw;
  }
}

VariableRun::~VariableRun() {
  const std::lock_guard lock(store_.mutex_);
  if (finished_) return;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (writing_ && written_[i]) store_.entries_[places_[i]].damaged = true;
  }
  end_turn();
}

void VariableRun::end_turn() {
  if (writing_) store_.writing_ = false;
  writing_ = false;
  if (updates_) std::erase(store_.turns_, this);
  store_.notify();
}

std::vector<Tensor> VariableRun::begin_writing(std::span<const std::size_t> variables,
                                               const std::vector<bool>& on_device, const DeviceSpace& space) {
  std::vector<Tensor> memory(variables.size());
  const auto is_on_device = [&](std::size_t variable) { return !on_device.empty() && on_device[variable]; };
  {
    const std::lock_guard lock(store_.mutex_);
    for (std::size_t k = 0; k < variables.size(); ++k) {
      const std::size_t i = variables[k];
      const bool present = store_.entries_[places_[i]].value.same_as(held_[i]);
      const int own_holders = present ? 2 : 1;
      if (is_on_device(i)) {
        if (!held_[i].is_writable_on(*space.device, own_holders)) continue;
        held_[i].keep_on_device_only();
        memory[k] = held_[i].on_device(space);
      } else {
        if (!held_[i].is_writable(own_holders)) continue;
        held_[i].keep_on_host_only();
        memory[k] = held_[i].tensor();
      }
      written_over_[i] = present;
      writing_ = writing_ || present;
    }
    if (writing_) store_.writing_ = true;
  }
  for (std::size_t k = 0; k < variables.size(); ++k) {
    if (memory[k].has_value()) continue;
    const HeldValue& value = held_[variables[k]];
    memory[k] = is_on_device(variables[k]) ? allocate_on(space, Purpose::variables, value.dtype(), value.shape())
                                           : store_.memory_.allocate(value.dtype(), value.shape());
  }
  return memory;
}

void VariableRun::mark_written(std::size_t variable) {
  written_[variable] = written_over_[variable];
}

std::string VariableRun::damaged() const {
  const std::lock_guard lock(store_.mutex_);
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (written_[i]) names.push_back(store_.entries_[places_[i]].name);
  }
  return names.empty() ? std::string() : fmt::format("variables '{}'", fmt::join(names, "', '"));
}

void VariableRun::update(std::size_t variable, Tensor next) {
  if (next.shares_storage_with(held_[variable].tensor())) next_[variable] = held_[variable];
  else next_[variable].emplace(std::move(next), true, store_.account_);
}

void VariableRun::update_on(const DeviceSpace& space, std::size_t variable, Tensor next) {
  if (held_[variable].is_on_device_at(next)) next_[variable] = held_[variable];
  else next_[variable].emplace(std::move(next), *space.device, store_.account_);
}

void VariableRun::update_by(std::size_t variable, std::size_t other) {
  next_[variable] = held_[other];
}

void VariableRun::finish() noexcept {
  TESSERA_ASSERT(updates_, "a run that only reads has nothing to finish");
  {
    const std::lock_guard lock(store_.mutex_);
    for (std::size_t i = 0; i < places_.size(); ++i) {
      Variables::Entry& entry = store_.entries_[places_[i]];
      if (next_[i] && entry.times_set == times_set_[i]) std::swap(entry.value, *next_[i]);
    }
    finished_ = true;
    end_turn();
  }
  // Former values are released without the mutex.
  next_.clear();
  held_.clear();
}

}  // namespace tessera::runtime
