#pragma once

#include <atomic>

namespace tessera::test {

// Gives a variable another value until the end of the scope.
template <typename T>
class ScopedValue {
 public:
  ScopedValue(std::atomic<T>& variable, T value) : variable_(variable), before_(variable.exchange(value)) {}
  ~ScopedValue() { variable_ = before_; }
  ScopedValue(const ScopedValue&) = delete;
  ScopedValue& operator=(const ScopedValue&) = delete;

 private:
  std::atomic<T>& variable_;
  T before_;
};

}  // namespace tessera::test
