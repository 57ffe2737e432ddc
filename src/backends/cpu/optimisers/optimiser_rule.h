// The update rules of ops/training/optimiser_step.h on float32 elements, compiled for each instruction set.
#pragma once

#include <cstdint>

#include "ops/core/op.h"

namespace tessera::backends::cpu {

// Elements of one parameter, its gradient and its states. Results may be in place.
struct OptimiserOperands {
  const float *parameter, *gradient, *state[2];
  float *new_parameter, *new_state[2];
  std::int64_t count;
};

// The coefficients of a step for one parameter.
struct StepNumbers {
  float rate = 0;  // of the final product; includes the correction of the first moment, and LAMB's norms
  float gradient_scale = 0, decay = 0, momentum = 0, epsilon = 0;
  float beta1 = 0, beta2 = 0, rest1 = 0, rest2 = 0;  // the decays of the moments, and 1 minus each
  float first = 0;                                   // LAMB: 1 / (1 − β1^t)
  float root = 0;                                    // 1 / sqrt(1 − β2^t)
  float keep = 1;                                    // AdamW: 1 − rate · decay
  float gradient_rate = 0;                           // LARS: rate times the local rate
  bool nesterov = false;
};

struct SquaredNorms {
  double parameter = 0, change = 0;
};

struct OptimiserFunctions {
  using Update = void (*)(const StepNumbers&, const OptimiserOperands&);
  using Norms = SquaredNorms (*)(const StepNumbers&, const OptimiserOperands&);
  Update sgd, sgd_momentum, adam, adagrad, lars, lamb;
  Norms lars_norms;  // of the parameter and the scaled gradient
  Norms lamb_norms;  // of the parameter and its change, after both moments are updated
};

// The update rule of a node with the attributes of an optimiser. The coefficients of a step are computed in double
// precision.
class OptimiserRule {
 public:
  explicit OptimiserRule(const ops::AttributeReader& reader);

  std::size_t states() const { return states_; }
  double trust() const { return trust_; }
  double epsilon() const { return epsilon_; }
  bool is_lars() const { return algorithm_ == Algorithm::lars; }
  bool is_lamb() const { return algorithm_ == Algorithm::lamb; }
  const OptimiserFunctions& functions() const { return *functions_; }
  OptimiserFunctions::Update update() const;
  // The coefficients for a parameter with that weight decay. The rates of LARS and LAMB do not include the norms yet.
  StepNumbers numbers(double decay, double rate, double count, double scale) const;

 private:
  enum class Algorithm { sgd, adam, adamw, adagrad, lars, lamb };
  static Algorithm algorithm_of(const std::string& name);

  const OptimiserFunctions* functions_;
  Algorithm algorithm_;
  std::size_t states_;
  double momentum_, beta1_, beta2_, epsilon_, rate_decay_, trust_;
  bool nesterov_;
};

}  // namespace tessera::backends::cpu
