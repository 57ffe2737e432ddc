// One run in progress under an arbiter: the gate that asks for each of its steps.
#pragma once

#include <memory>

#include "runtime/memory/run_memory.h"
#include "share/arbiter_state.h"
#include "tessera/gate.h"

namespace tessera::share {

// Averages over the runs of a job with the same session and shapes.
struct RunHistory {
  double device_ns = 0;  // an average of the latest ones
  Demand mean{0, 0, 0};
  std::int64_t runs = 0;

  void add(double ns, const Demand& demand);
};

// Counts of the spills by runs of a job. Guarded by the arbiter's mutex.
struct SpillCount {
  std::int64_t spills = 0, written_bytes = 0;
};

// Used by the thread of the run; others only wake it. The run has arrived when this is made and ended when it is
// destroyed, however it ends. While it waits for memory it is not there for the policy: whoever holds that memory might
// wait behind it.
class GatedRun final : public StepGate, public runtime::RunMemory {
 public:
  // `history`, `predictor` and `spills` are the job's and used with the arbiter's mutex held.
  GatedRun(ArbiterState& arbiter, JobState& job, RunHistory& history, cost::Predictor& predictor, SpillCount& spills);
  ~GatedRun() override;
  GatedRun(const GatedRun&) = delete;
  GatedRun& operator=(const GatedRun&) = delete;

  bool may_pass(const StepInfo& step) override;
  void wait(const StepInfo& step) override;
  runtime::RunMemory* memory() override { return this; }

  bool try_take(std::int64_t bytes, bool holds_more) override;
  void wait() override;
  void give_back(std::int64_t bytes) noexcept override;
  std::int64_t wanted_bytes() const noexcept override { return memory_.wanted.load(std::memory_order_relaxed); }
  const std::string& spill_folder() const noexcept override { return arbiter_.spill_folder; }
  void spilled(std::int64_t written_bytes, std::int64_t took_ns) noexcept override;

  std::int64_t waited_ns() const { return waited_ns_; }
  std::int64_t arrival_ns() const { return run_.arrival_ns; }

 private:
  // With the arbiter's mutex held.
  void end_step(std::int64_t now_ns);
  void ask(const StepInfo& step, std::int64_t now_ns);
  void begin_steps(std::int64_t now_ns);
  void leave();
  void come_back();

  ArbiterState& arbiter_;
  JobState& job_;
  SpillCount& spills_;
  RunHistory& history_;
  cost::Predictor& predictor_;
  std::unique_ptr<Clock::Signal> signal_;
  Run run_;
  TemporaryMemory memory_;
  bool is_there_ = true;  // for the policy
  // What nobody is there to disturb need not be measured step by step: of a job whose steps are known, most runs pass
  // all steps as one while they are alone. Not those of background jobs, which policies pace.
  bool may_join_steps_ = false;
  bool joined_ = false;  // the step that computes is several
  bool asked_ = false;   // for the present step, which it has not begun
  std::uint64_t key_ = 0;
  double modelled_ns_ = 0, predicted_ns_ = 0;
  bool known_ = false;        // steps of this kind have been measured before
  bool disturbed_ = false;    // another run computed beside the step
  double device_ns_ = 0;      // of the steps that have ended
  Demand weighted_{0, 0, 0};  // sum over ended steps of demand · time
  std::int64_t waited_ns_ = 0;
};

}  // namespace tessera::share
