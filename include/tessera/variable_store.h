// State of models that persists between runs: weights in training, moments of optimisers, caches.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/export.h"
#include "tessera/tensor.h"

namespace tessera {

namespace runtime {
class Variables;
struct VariableValues;
}  // namespace runtime

// All variables of a store as after one whole run. Copies share it. Making one copies nothing: while a snapshot holds a
// value, runs write the next value of that variable to other memory.
class TESSERA_API VariableSnapshot {
 public:
  // In the order in which sessions declared them.
  const std::vector<std::string>& names() const;
  // A view, to be read only; it holds the value by itself. Throws Error(invalid_argument) for an unknown name.
  Tensor variable(std::string_view name) const;

 private:
  friend class VariableStore;
  explicit VariableSnapshot(std::shared_ptr<const runtime::VariableValues> values) : values_(std::move(values)) {}
  std::shared_ptr<const runtime::VariableValues> values_;
};

// Named state that any number of sessions may share (SessionOptions::variables), one that trains and one that
// evaluates, say. A session without one makes its own. Thread-safe.
//
// A run sees all variables as after one whole run of whoever updates them, from its beginning to its end. Runs that
// update variables of a store take turns; runs that only read them go on beside. Whoever reads from outside waits for
// no run, not even for one that a gate holds, but for the moment in which its updates are written.
class TESSERA_API VariableStore {
 public:
  // A store with a memory account of its own. `memory_limit_bytes`: of all values in use; 0: nine tenths of the memory
  // that this process may use.
  explicit VariableStore(std::int64_t memory_limit_bytes = 0);
  // For callers inside Tessera.
  explicit VariableStore(std::shared_ptr<runtime::Variables> state) : state_(std::move(state)) {}
  ~VariableStore();
  VariableStore(const VariableStore&) = delete;
  VariableStore& operator=(const VariableStore&) = delete;

  // In the order in which sessions declared them.
  std::vector<std::string> names() const;
  // A copy of the value as after the last whole run. Throws Error(invalid_argument) for an unknown name, and
  // Error(failed) for a variable that a failed run damaged (see Session::run).
  Tensor get(std::string_view name) const;
  // Copies the value. A run in progress goes on with what it began with, and its update of this variable is dropped, as
  // if the run had ended before. Throws Error: invalid_argument (unknown name, other type or shape), over_budget.
  void set(std::string_view name, const Tensor& value);
  // Throws Error(failed) while variables are damaged.
  VariableSnapshot snapshot() const;
  // Sets all variables of the snapshot at once, as set() does, but copies none. Throws Error(invalid_argument) for a
  // snapshot of another store; nothing is set then.
  void restore(const VariableSnapshot& snapshot);
  // Bytes of all values, those included that only runs or snapshots still hold.
  std::int64_t bytes() const;

  // For callers inside Tessera.
  const std::shared_ptr<runtime::Variables>& state() const { return state_; }

 private:
  std::shared_ptr<runtime::Variables> state_;
};

}  // namespace tessera
