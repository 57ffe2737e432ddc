#include "dist/scaling/training_profile.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace tessera::dist::training_profile_test {
namespace {

constexpr std::string_view kText = R"(
parameters = 1e6
kernels = 100
epoch_samples = 50_000
[measured]
gpus = 8
batch = 100
epochs = 10
minutes = 2
)";

std::string with(std::string_view what, std::string_view by) {
  std::string text(kText);
  return text.replace(text.find(what), what.size(), by);
}

TEST(TrainingProfile, TheBatchThatWasMeasuredFits) {
  const TrainingProfile profile = parse_training_profile(kText, "net.toml");
  EXPECT_EQ(profile.most_gpu_batch, 13);  // 100 samples on 8 GPUs
  EXPECT_DOUBLE_EQ(profile.measured->seconds, 120);
  EXPECT_DOUBLE_EQ(profile.all_gradient_bytes(), 2e6);
  EXPECT_FALSE(profile.spatial);
  EXPECT_EQ(profile.title, "net.toml");
}

TEST(TrainingProfile, FaultsAreNamed) {
  const auto refused = [](const std::string& text, const char* message) {
    test::expect_error_containing(ErrorKind::invalid_argument, message,
                                  [&] { parse_training_profile(text, "net.toml"); });
  };
  refused(with("parameters = 1e6", ""), "net.toml: 'parameters' is missing");
  refused(with("1e6", "1e300"), "'parameters' is 1e+300, expected a number from 1 to 1e+12");
  refused(with("1e6", "\"many\""), "expected a number");
  refused(with("batch = 100", "batch = -1"), "net.toml [measured]: 'batch' is -1");
  refused(with("minutes = 2", "minutes = nan"), "'minutes' is nan");
  refused(with("epochs = 10", ""), "[measured]: 'epochs' is missing");
  refused(with("kernels", "kernel"), "'kernels' is missing");
  refused(with("[measured]", "kernles = 1\n[measured]"), "did you mean 'kernels'?");
  refused(with("[measured]", "[spatial]\nserial_share = 2\n[measured]"), "[spatial]: 'serial_share' is 2");
}

}  // namespace
}  // namespace tessera::dist::training_profile_test
