// One run in progress under an arbiter: the gate that asks for each of its steps.
#pragma once

#include <memory>

#include "share/arbiter_state.h"
#include "tessera/gate.h"

namespace tessera::share {

// What the runs of a job with the same session and shapes were like.
struct RunHistory {
  double device_ns = 0;  // an average of the latest ones
  Demand mean{0, 0, 0};
  std::int64_t runs = 0;

  void add(double ns, const Demand& demand);
};

// Used by the thread of the run; others only wake it. The run has arrived when this is made and ended when it is
// destroyed, however it ends.
class GatedRun final : public StepGate {
 public:
  // `history` and `predictor` are the job's and used with the arbiter's mutex held.
  GatedRun(ArbiterState& arbiter, JobState& job, RunHistory& history, cost::Predictor& predictor);
  ~GatedRun() override;
  GatedRun(const GatedRun&) = delete;
  GatedRun& operator=(const GatedRun&) = delete;

  bool may_pass(const StepInfo& step) override;
  void wait(const StepInfo& step) override;

  std::int64_t waited_ns() const { return waited_ns_; }
  std::int64_t arrival_ns() const { return run_.arrival_ns; }

 private:
  // With the arbiter's mutex held.
  void end_step(std::int64_t now_ns);
  void ask(const StepInfo& step, std::int64_t now_ns);
  void begin_steps(std::int64_t now_ns);

  ArbiterState& arbiter_;
  RunHistory& history_;
  cost::Predictor& predictor_;
  std::unique_ptr<Clock::Signal> signal_;
  Run run_;
  bool asked_ = false;  // for the present step, which it has not begun
  std::uint64_t key_ = 0;
  double modelled_ns_ = 0, predicted_ns_ = 0;
  bool known_ = false;        // steps of this kind have been measured before
  bool disturbed_ = false;    // another run computed beside the step
  double device_ns_ = 0;      // of the steps that have ended
  Demand weighted_{0, 0, 0};  // sum over ended steps of demand · time
  std::int64_t waited_ns_ = 0;
};

}  // namespace tessera::share
