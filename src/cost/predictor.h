// Predicts how long the next step takes: the time of the cost model times a correction measured on similar steps.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tessera::cost {

// A key that is equal for steps that take equally long. Two steps with the same operator and the same work have the
// same kernel on the same shapes, or nearly so.
std::uint64_t step_key(std::string_view op, double operations, double bytes);

// Not thread-safe.
class Predictor {
 public:
  // Predicted nanoseconds, from those of the cost model. A kind of step that was never measured gets the usual
  // correction: the geometric mean over all steps.
  double predict(std::uint64_t key, double modelled_ns) const;
  // Learns from a step that ran undisturbed; the time of a step that ran beside others would also measure those.
  void learn(std::uint64_t key, double modelled_ns, double measured_ns);
  // Counts the error of a prediction without learning from it.
  void judge(double predicted_ns, double measured_ns);

  // The median of |predicted − measured| / measured over the latest kKept steps whose kind had been measured before;
  // 0 without any.
  double median_error() const;
  bool knows(std::uint64_t key) const { return corrections_.contains(key); }

 private:
  static constexpr std::size_t kKept = 1024, kMostKinds = 65536, kRemembered = 15;
  struct Correction {
    double factor = 1;  // the median of the latest measured ones
    std::array<float, kRemembered> latest{};
    std::int64_t samples = 0;
  };

  std::unordered_map<std::uint64_t, Correction> corrections_;
  double usual_log_ = 0;
  std::int64_t samples_ = 0;
  std::vector<double> errors_;
  std::size_t next_error_ = 0;
};

}  // namespace tessera::cost
