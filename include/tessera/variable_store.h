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

// The values of all variables of a store after one whole run. Copies share it. Taking a snapshot copies nothing: while
// a snapshot holds a value, runs write the next value of that variable to other memory.
class TESSERA_API VariableSnapshot {
 public:
  // Names in the order in which sessions declared the variables.
  const std::vector<std::string>& names() const;
  // A read-only view of the value, which the view keeps alive. Throws Error(invalid_argument) for an unknown name.
  Tensor variable(std::string_view name) const;

 private:
  friend class VariableStore;
  explicit VariableSnapshot(std::shared_ptr<const runtime::VariableValues> values) : values_(std::move(values)) {}
  std::shared_ptr<const runtime::VariableValues> values_;
};

// Named state that any number of sessions can share (SessionOptions::variables), such as one that trains and one that
// evaluates. A session without a store makes its own. Thread-safe.
//
// From its beginning to its end a run sees the values of all variables after one whole updating run. Runs that update
// variables of a store take turns; runs that only read them proceed concurrently. Reading from outside of runs does not
// wait for a run, not even for one that a gate holds, except for the moment in which updates are written.
class TESSERA_API VariableStore {
 public:
  // A store with a memory account of its own. `memory_limit_bytes` limits all values in use; 0: nine tenths of the
  // memory that this process may use.
  explicit VariableStore(std::int64_t memory_limit_bytes = 0);
  // For callers inside Tessera.
  explicit VariableStore(std::shared_ptr<runtime::Variables> state) : state_(std::move(state)) {}
  ~VariableStore();
  VariableStore(const VariableStore&) = delete;
  VariableStore& operator=(const VariableStore&) = delete;

  // Names in the order in which sessions declared the variables.
  std::vector<std::string> names() const;
  // A copy of the value after the last whole run. Throws Error(invalid_argument) for an unknown name, and Error(failed)
  // for a variable that a failed run damaged (see Session::run).
  Tensor get(std::string_view name) const;
  // Copies the value into the store. A run in progress continues with the value at its beginning, and its update of
  // this variable is dropped, as if the run had ended before. Throws Error: invalid_argument (unknown name, other type
  // or shape), over_budget.
  void set(std::string_view name, const Tensor& value);
  // A snapshot of all variables. Throws Error(failed) while variables are damaged.
  VariableSnapshot snapshot() const;
  // Sets all variables to the snapshot at once, as set() does, but without copies. Throws Error(invalid_argument) for a
  // snapshot of another store and sets nothing then.
  void restore(const VariableSnapshot& snapshot);
  // Bytes of all values, including those that only runs or snapshots still hold.
  std::int64_t bytes() const;

  // For callers inside Tessera.
  const std::shared_ptr<runtime::Variables>& state() const { return state_; }

 private:
  std::shared_ptr<runtime::Variables> state_;
};

}  // namespace tessera
