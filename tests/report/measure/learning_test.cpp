#include "report/measure/learning.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/threads/thread_pool.h"
#include "models/models.h"
#include "report/measure/calibration.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace tessera::test::learning_test {
namespace {

// A calibration in a folder of its own: two threads whose kernels were never measured.
class Learning : public testing::Test {
 protected:
  Learning() {
    setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
    cost::DeviceProfile profile = report::load_cpu_profile().profile;
    profile.title.resize(profile.title.find(" (not calibrated)"));
    profile.multiprocessors = 2;
    profile.overhead_seconds = 0;  // no step is over before it has begun
    profile.one_thread = cost::DeviceProfile::OneThread{profile.vector_rates, profile.bandwidth, profile.caches, {}};
    report::save_calibration(profile, report::calibration_path());
  }
  ~Learning() override { unsetenv("XDG_CACHE_HOME"); }

  // As if two threads were all, whatever this machine has.
  report::Explanation explain(int threads, bool measure, cost::Precision precision = cost::Precision::f32) const {
    const report::CpuProfile cpu = report::load_cpu_profile();
    EXPECT_TRUE(cpu.measured);
    report::ExplainOptions options;
    options.devices = {threads == 1 ? cpu.profile.with_one_thread() : cpu.profile};
    options.session.threads = threads;
    options.measure = measure;
    options.precision = precision;
    report::Explanation explanation = report::explain(model_, "lenet5", options);
    if (!measure) return explanation;
    EXPECT_EQ(explanation.measured->threads, threads == 1 ? 1 : base::ThreadPool::process().cores());
    explanation.measured->threads = threads == 1 ? 1 : 2;
    return explanation;
  }
  static std::string file() {
    std::ostringstream text;
    text << std::ifstream(report::calibration_path()).rdbuf();
    return text.str();
  }

  TemporaryFolder folder_;
  const Model model_ =
      Model(std::make_shared<const ir::Graph>(models::build_model("lenet5", {.dims = {{"batch", 16}}})));
};

TEST_F(Learning, PredictsWhatWasMeasured) {
  const report::Explanation first = explain(1, true);
  const std::size_t learned = report::learn_from(first);
  EXPECT_GT(learned, 5u);
  const report::Explanation then = explain(1, false);
  // Layers alike share a sample; lenet5 has none.
  EXPECT_NEAR(then.devices[0].evaluation.total.seconds, first.measured->total_seconds,
              0.1 * first.measured->total_seconds);
  const cost::DeviceProfile stored = report::load_cpu_profile().profile;
  EXPECT_LE(stored.one_thread->correction.samples().size(), learned);
  EXPECT_TRUE(stored.one_thread->correction.samples()[0].learned);
  EXPECT_TRUE(stored.correction.empty());
}

TEST_F(Learning, WhatIsMeasuredAgainIsReplaced) {
  report::learn_from(explain(0, true));
  const std::size_t once = report::load_cpu_profile().profile.correction.samples().size();
  EXPECT_GT(once, 0u);
  report::learn_from(explain(0, true));
  EXPECT_EQ(report::load_cpu_profile().profile.correction.samples().size(), once);
  EXPECT_TRUE(report::load_cpu_profile().profile.one_thread->correction.empty());
}

TEST_F(Learning, Bf16HasSamplesOfItsOwn) {
  report::learn_from(explain(0, true, cost::Precision::bf16));
  const cost::Correction correction = report::load_cpu_profile().profile.correction;
  EXPECT_TRUE(std::ranges::any_of(correction.samples(),
                                  [](const cost::Sample& sample) { return sample.kernel.starts_with("cpu_bf16"); }));
}

TEST_F(Learning, NothingIsWrittenWhenItCannotLearn) {
  const report::Explanation measured = explain(0, true);
  const auto with_threads = [&](int threads) {
    report::Explanation other = measured;
    other.measured->threads = threads;
    return other;
  };
  const std::string before = file();
  expect_error_containing(ErrorKind::invalid_argument, "nothing was measured",
                          [&] { report::learn_from(explain(0, false)); });
  expect_error_containing(ErrorKind::invalid_argument, "there is nothing to learn in int8",
                          [&] { report::learn_from(explain(0, true, cost::Precision::int8)); });
  report::Explanation faster = measured;
  faster.devices[0].evaluation.device.bandwidth *= 2;
  expect_error_containing(ErrorKind::invalid_argument, "not as this CPU", [&] { report::learn_from(faster); });
  expect_error_containing(ErrorKind::invalid_argument, "not as this CPU", [&] { report::learn_from(with_threads(1)); });
  expect_error_containing(ErrorKind::invalid_argument, "of one thread and of all 2, not of 3",
                          [&] { report::learn_from(with_threads(3)); });
  EXPECT_EQ(file(), before);
  cost::DeviceProfile all = report::load_cpu_profile().profile;
  all.one_thread.reset();
  report::save_calibration(all, report::calibration_path());
  expect_error_containing(ErrorKind::invalid_argument, "holds no times of one thread",
                          [&] { report::learn_from(with_threads(1)); });
  std::ofstream(report::calibration_path()) << "name = ";
  expect_error_containing(ErrorKind::invalid_argument, "is no TOML", [&] { report::learn_from(measured); });
  EXPECT_EQ(file(), "name = ");
  std::filesystem::remove(report::calibration_path());
  expect_error_containing(ErrorKind::not_found, "run `tessera calibrate` first", [&] { report::learn_from(measured); });
  EXPECT_FALSE(std::filesystem::exists(report::calibration_path()));
}

}  // namespace
}  // namespace tessera::test::learning_test
