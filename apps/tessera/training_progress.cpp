#include "training_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "base/text.h"
#include "report/html/class_report.h"

namespace tessera::apps {
namespace {

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

std::string skipped_text(const EvaluationReport& report) {
  if (report.skipped_samples == 0) return "";
  const std::string first = report.skipped_reasons.empty() ? "" : report.skipped_reasons.front();
  return fmt::format("; {} could not be read{}{}", report.skipped_samples, first.empty() ? "" : ", such as ",
                     base::printable(base::shortened(first, 200)));
}

TrainingProgress::TrainingProgress(bool quiet)
    : on_terminal_(isatty(STDERR_FILENO) == 1), quiet_(quiet), begin_(std::chrono::steady_clock::now()) {}

void TrainingProgress::show(std::int64_t step, std::int64_t steps) {
  if (first_step_ < 0) first_step_ = step - 1;
  if (!on_terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - shown_ < std::chrono::milliseconds(100) && step != steps) return;
  shown_ = now;
  constexpr std::int64_t kWidth = 24;
  const std::int64_t full = kWidth * step / steps;
  std::string bar;
  for (std::int64_t i = 0; i < kWidth; ++i) bar += i < full ? "█" : "░";
  const double spent = std::chrono::duration<double>(now - begin_).count();
  const double left = spent / static_cast<double>(step - first_step_) * static_cast<double>(steps - step);
  std::string line = fmt::format("{} {}/{}", bar, step, steps);
  if (last_) line += fmt::format("  loss {:.4g}  {:.0f} samples/s", last_->loss, last_->samples_per_s);
  if (evaluation_) line += fmt::format("  {} {} {:.4f}", evaluation_->data, evaluation_->metric, evaluation_->value);
  line += fmt::format("  {} left", clock_text(left));
  fmt::print(stderr, "\r\x1b[K{}", line);
  std::fflush(stderr);
}

void TrainingProgress::clear() {
  if (on_terminal_) fmt::print(stderr, "\r\x1b[K");
}

void TrainingProgress::add(const StepReport& line) {
  const bool new_epoch = !last_ || line.epoch != last_->epoch;
  last_ = line;
  if (quiet_ || on_terminal_ || !new_epoch || line.epoch == printed_epoch_) return;
  printed_epoch_ = line.epoch;
  fmt::print("step {}/{}  epoch {}  loss {:.4f}  learning rate {:.3g}  {:.0f} samples/s\n", line.step, line.steps,
             line.epoch, line.loss, line.learning_rate, line.samples_per_s);
  std::fflush(stdout);
}

void TrainingProgress::add(const EvaluationReport& line) {
  if (line.data != "train") evaluation_ = line;
  if (quiet_) return;
  clear();
  fmt::print("step {}  {}{}\n", line.step, report::evaluation_text(line),
             line.of_best ? "  (the best weights)"
             : line.best  ? "  (best so far)"
                          : "");
  std::fflush(stdout);
}

void TrainingProgress::end() {
  clear();
}

}  // namespace tessera::apps
