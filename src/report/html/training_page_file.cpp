#include "base/error.h"
#include "io/output_file.h"
#include "report/html/training_page.h"

namespace tessera::report {

TrainingPageFile::TrainingPageFile(std::string path, TrainingRecord record)
    : path_(std::move(path)), record_(std::move(record)), written_(std::chrono::steady_clock::now()) {}

TrainingPageFile::~TrainingPageFile() {
  if (!record_.is_running) return;
  record_.is_running = false;
  try {
    io::write_text(path_, training_page(record_));
  } catch (const Error&) {
    // The error that ended the training is more important than this one.
  }
}

void TrainingPageFile::add(const StepReport& report) {
  record_.steps.push_back(report);
  write_if_due();
}

void TrainingPageFile::add(const EvaluationReport& report) {
  record_.evaluations.push_back(report);
  write_if_due();
}

void TrainingPageFile::write_if_due() {
  constexpr std::chrono::seconds kEvery{3};
  if (std::chrono::steady_clock::now() - written_ < kEvery) return;
  record_.is_running = true;
  io::write_text(path_, training_page(record_));
  written_ = std::chrono::steady_clock::now();
}

void TrainingPageFile::finish(const TrainingResult& result) {
  record_.is_running = false;
  record_.result = result;
  io::write_text(path_, training_page(record_));
}

}  // namespace tessera::report
