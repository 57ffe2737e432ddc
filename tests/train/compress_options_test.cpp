// The table [compress] of a training configuration.
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "tessera/train.h"

namespace tessera::train::compress_options_test {
namespace {

using test::expect_error_containing;

TEST(CompressOptions, ReadsItsTable) {
  const auto parse = [](const std::string& text) {
    return parse_training_config("[compress]\n" + text, "test.toml").compress.value();
  };
  const CompressOptions read = parse(
      "weights = 4\nactivations = 'none'\nranges = 'averaged'\nrange_decay = 0.5\nbatch_norm = 'folded'\n"
      "start_step = 3\nfreeze_step = 9\nexclude = ['head*']");
  EXPECT_EQ(read.weights, 4);
  EXPECT_EQ(read.activations, 0);
  EXPECT_EQ(read.ranges, "averaged");
  EXPECT_EQ(read.range_decay, 0.5);
  EXPECT_EQ(read.batch_norm, "folded");
  EXPECT_EQ(read.start_step, 3);
  EXPECT_EQ(read.freeze_step, 9);
  EXPECT_EQ(read.exclude, std::vector<std::string>{"head*"});
  EXPECT_EQ(parse("").weights, 8);
  const auto refused = [&](const char* text, const char* part) {
    expect_error_containing(ErrorKind::invalid_argument, part, [&] { parse(text); });
  };
  refused("weights = 5", "compress.weights is 5, expected 8 or 4 bits");
  refused("weights = -8", "compress.weights is -8");
  refused("weights = 4294967304", "compress.weights is 4294967304");
  refused("weights = 'int4'", "weights is 'int4', expected a whole number");
  refused("activations = 4", "compress.activations is 4, expected 8 bits or none");
  refused("activations = 'all'", "activations is 'all', expected a whole number");
  refused("ranges = 'guessed'", "compress.ranges is 'guessed', expected learned or averaged");
  refused("range_decay = 1", "compress.range_decay is 1, expected a number in [0, 1)");
  refused("range_decay = nan", "compress.range_decay is nan");
  refused("batch_norm = 'train'", "compress.batch_norm is 'train', expected folded or kept");
  refused("start_step = -1", "compress.start_step is -1");
  refused("freeze_step = 9223372036854775807", "compress.freeze_step is 9223372036854775807");
  refused("weight = 4", "compress.weight is unknown; did you mean 'weights'?");
}

}  // namespace
}  // namespace tessera::train::compress_options_test
