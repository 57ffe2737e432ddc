// The simulator against steps worked out by hand, and against the published results of MLPerf Training v1.0.
#include "dist/scaling/time_to_train.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "support/expect_error.h"

namespace tessera::dist::time_to_train_test {
namespace {

// A cluster on which only what a test sets costs time.
ClusterProfile free_cluster() {
  ClusterProfile cluster = load_cluster("dgxa100");
  cluster.node_link = cluster.network_link = {0, 1e30};
  cluster.kernel_seconds = cluster.recurrent_step_seconds = cluster.launch_seconds = 0;
  cluster.device.bandwidth = 1e30;
  return cluster;
}

TrainingProfile small_net() {
  TrainingProfile net;
  net.title = "small";
  net.parameters = 40e6;  // 80 MB of gradients
  net.epoch_samples = 1000;
  net.most_gpu_batch = 16;
  net.sample_seconds = 1e-3;
  return net;
}

StepTime step_of(const TrainingProfile& net, const ClusterProfile& cluster, std::int64_t gpus, std::int64_t batch,
                 const ScalingOptions& options = {}) {
  return ScalingModel(net, cluster).step(gpus, batch, options).value();
}

TEST(TimeToTrain, ComputesTheSamplesOfAGpu) {
  TrainingProfile net = small_net();
  EXPECT_DOUBLE_EQ(step_of(net, free_cluster(), 1, 16).compute_seconds, 16e-3);
  EXPECT_DOUBLE_EQ(step_of(net, free_cluster(), 8, 17).compute_seconds, 3e-3);  // the largest part is 3 samples
  ClusterProfile cluster = free_cluster();
  cluster.kernel_seconds = 10e-6;
  cluster.recurrent_step_seconds = 1e-6;
  net.kernels = 100;
  net.recurrent_steps = 500;
  EXPECT_DOUBLE_EQ(step_of(net, cluster, 1, 16).compute_seconds, 16e-3 + 1e-3 + 0.5e-3);
  // Of 40 samples, a GPU computes three micro-batches, each with the least times of its kernels.
  const StepTime accumulated = step_of(net, cluster, 1, 40);
  EXPECT_EQ(accumulated.micro_batches, 3);
  EXPECT_DOUBLE_EQ(accumulated.compute_seconds, 40e-3 + 3 * 1.5e-3);
}

TEST(TimeToTrain, WithoutCaptureTheDeviceWaitsForTheHost) {
  TrainingProfile net = small_net();
  net.kernels = 100;
  ClusterProfile cluster = free_cluster();
  cluster.kernel_seconds = 10e-6;
  cluster.launch_seconds = 30e-6;
  EXPECT_DOUBLE_EQ(step_of(net, cluster, 1, 1, {.capture = false}).compute_seconds, 3e-3);
  EXPECT_DOUBLE_EQ(step_of(net, cluster, 1, 1).compute_seconds, 2e-3);
  EXPECT_DOUBLE_EQ(step_of(net, cluster, 1, 10, {.capture = false}).compute_seconds, 11e-3);
}

// The time at which the last of the buckets is summed, bucket by bucket.
double end_of_sums(const TrainingProfile& net, const ClusterProfile& cluster, std::int64_t gpus, double backward) {
  const double all = net.all_gradient_bytes();
  double ready_bytes = 0, done = 0;
  while (ready_bytes < all) {
    const double bytes = std::min(ready_bytes == 0 ? kFirstBucketBytes : kBucketBytes, all - ready_bytes);
    ready_bytes += bytes;
    done = std::max(done, backward * ready_bytes / all) + all_reduce_cost(cluster, gpus, bytes, std::nullopt).seconds;
  }
  return done;
}

TEST(TimeToTrain, HidesSumsBehindTheBackwardPass) {
  for (const double parameters : {0.1e6, 0.5e6, 13e6, 40e6, 500e6}) {
    for (const double bytes_per_second : {1e9, 10e9, 100e9}) {
      TrainingProfile net = small_net();
      net.parameters = parameters;
      ClusterProfile cluster = free_cluster();
      cluster.network_link = {5e-6, bytes_per_second};
      cluster.node_link = {3e-6, 10 * bytes_per_second};
      const StepTime step = step_of(net, cluster, 16, 160);
      const double backward = 2.0 / 3 * 10e-3;
      EXPECT_NEAR(step.exposed_seconds, end_of_sums(net, cluster, 16, backward) - backward, 1e-12)
          << parameters << " parameters, " << bytes_per_second << " bytes per second";
      EXPECT_LE(step.exposed_seconds, step.all_reduce_seconds * (1 + 1e-12));
      EXPECT_DOUBLE_EQ(step.seconds(), step.compute_seconds + step.exposed_seconds + step.update_seconds);
      EXPECT_EQ(step_of(net, cluster, 1, 10).exposed_seconds, 0);
    }
  }
}

TEST(TimeToTrain, ExchangesEmbeddingsThereAndBackAndUpdates) {
  TrainingProfile net = small_net();
  net.exchange_bytes = 1e6;
  net.update_bytes = 10;
  ClusterProfile cluster = free_cluster();
  cluster.node_link = {0, 1e9};
  cluster.device.bandwidth = 1e12;
  const StepTime step = step_of(net, cluster, 8, 32);
  EXPECT_DOUBLE_EQ(step.exchange_seconds, 2 * 4e6 * 7 / 8 / 1e9);
  EXPECT_DOUBLE_EQ(step.update_seconds, 40e6 * 10 / 1e12);
}

TEST(TimeToTrain, SplitsSamplesWhereTheBatchIsSmall) {
  TrainingProfile net = small_net();
  EXPECT_FALSE(ScalingModel(net, free_cluster()).step(64, 16).has_value());
  net.spatial = SpatialSplit{.serial_share = 0.2, .exchanges = 10, .exchange_bytes = 1e6};
  ClusterProfile cluster = free_cluster();
  cluster.node_link = {1e-6, 1e9};
  const StepTime step = step_of(net, cluster, 64, 16);
  EXPECT_EQ(step.split, 4);
  EXPECT_EQ(step.gpu_batch, 1);
  EXPECT_DOUBLE_EQ(step.compute_seconds, 1e-3 * (0.2 + 0.8 / 4) + 10 * (1e-6 + 1e-3));
  EXPECT_FALSE(ScalingModel(net, cluster).step(256, 16).has_value());  // a node has 8 GPUs, not 16
}

TEST(TimeToTrain, StepsAreWholeInEachEpochAndTheBestBatchWins) {
  const ScalingModel model(small_net(), free_cluster());
  EXPECT_DOUBLE_EQ(model.steps(300, 10), 40);  // 1000 / 300 = 3.33
  // 8 GPUs: 10 epochs of 10 steps of 13 samples, or 12 epochs of 5 steps of 25.
  const auto points = simulate_scaling(model, {8, 128}, {{200, 12}, {100, 10}});
  EXPECT_EQ(points[0].training->batch, 100);
  EXPECT_DOUBLE_EQ(points[0].training->seconds, 10 * 10 * 13e-3);
  EXPECT_EQ(points[1].training->batch, 200);  // 100 samples are too few for 128 GPUs
  const auto evaluated = simulate_scaling(model, {16}, {{100, 10}}, {.evaluators = 8});
  EXPECT_DOUBLE_EQ(evaluated[0].training->seconds, points[0].training->seconds);
}

TEST(TimeToTrain, CalibrationReproducesWhatWasMeasured) {
  TrainingProfile net = small_net();
  net.sample_seconds.reset();
  net.kernels = 300;
  net.measured = MeasuredTraining{.gpus = 16, .batch = 128, .epochs = 20, .seconds = 10};
  const ScalingModel model(net, load_cluster("dgxa100"));
  EXPECT_NEAR(model.steps(128, 20) * model.step(16, 128)->seconds(), 10, 1e-9);
  net.measured->seconds = 0.1;
  test::expect_error_containing(ErrorKind::invalid_argument, "its kernels, exchanges and update alone take",
                                [&] { ScalingModel(net, load_cluster("dgxa100")); });
  net.measured->seconds = 10;
  net.operations_per_sample = 1e15;
  test::expect_error_containing(ErrorKind::invalid_argument, "times as fast as the peak of NVIDIA A100",
                                [&] { ScalingModel(net, load_cluster("dgxa100")); });
}

TEST(TimeToTrain, FaultsAreNamed) {
  const ScalingModel model(small_net(), load_cluster("dgxa100"));
  const auto refused = [](const char* message, const std::function<void()>& call) {
    test::expect_error_containing(ErrorKind::invalid_argument, message, call);
  };
  refused("12 GPUs do not fill nodes of 8", [&] { model.step(12, 100); });
  refused("12 GPUs that train do not fill nodes of 8", [&] { model.step(16, 100, {.evaluators = 4}); });
  refused("8 evaluators of 8 GPUs", [&] { model.step(8, 100, {.evaluators = 8}); });
  refused("names batch 64 twice", [&] { simulate_scaling(model, {8}, {{64, 1}, {64, 2}}); });
  refused("fewer samples than there are GPUs", [&] { simulate_scaling(model, {128}, {{64, 1}}); });
  refused("has 1001 batches", [&] { simulate_scaling(model, {8}, std::vector<cost::ConvergencePoint>(1001)); });
  EXPECT_EQ(parse_gpu_counts("1..20,64"), (std::vector<std::int64_t>{1, 2, 4, 8, 16, 20, 64}));
  for (const char* text : {"", "0", "-1", "1..", "..8", "8,", "1..2..4", "2000000", "99999999999999999999", "x", "1.5"})
    refused("numbers of GPUs are such as", [&] { parse_gpu_counts(text); });
  refused("ends before it begins", [] { parse_gpu_counts("8..4"); });
}

// --- published results ----------------------------------------------------------------------------------------------

// NVIDIA's results in MLPerf Training v1.0, closed division, on DGX A100 (MLCommons training_results_v1.0 and the table
// of results of June 2021): minutes, and the median of the epochs in the logs of the runs.
struct Published {
  const char* profile;
  std::int64_t gpus, evaluators, batch;
  double epochs, minutes;
};
constexpr Published kPublished[] = {
    {"bert_large", 64, 0, 3072, 3.15, 3.37},  // BERT, 8 nodes; millions of samples
    {"resnet50", 64, 0, 13056, 45, 4.91},     // ResNet-50, 8 nodes
    {"ssd", 64, 0, 1536, 65, 1.90},           // SSD, 8 nodes: config_DGXA100_8x8x24
    {"ssd", 1024, 0, 3072, 75, 0.48},         // SSD, 128 nodes: config_DGXA100_128x8x3
    {"dlrm", 64, 0, 71680, 4.19, 1.05},       // DLRM, 8 nodes; billions of samples
    {"dlrm", 112, 0, 71680, 4.19, 0.99},      // DLRM, 14 nodes
    {"rnnt", 128, 0, 2048, 63.5, 4.41},       // RNN-T, 16 nodes
    {"unet3d", 104, 24, 80, 2016, 4.59},      // 3D U-Net, 13 nodes, 3 evaluate: config_DGXA100_conv-dali_13x8x1
    {"unet3d", 800, 160, 80, 2289, 3.00},     // 3D U-Net, 100 nodes, 20 evaluate: config_DGXA100_static_100x8x1
};

using Change = std::function<void(TrainingProfile&, ClusterProfile&)>;

// Minutes of the simulator by those that were published, for each result.
std::vector<double> ratios(const Change& change = {}) {
  std::vector<double> result;
  for (const Published& published : kPublished) {
    const std::string file = fmt::format("{}/{}.toml", TESSERA_SCALING_EXAMPLES, published.profile);
    TrainingProfile profile = parse_training_profile(read_small_file(file), file);
    ClusterProfile cluster = load_cluster("dgxa100");
    EXPECT_EQ(profile.measured->gpus, 8) << file;
    if (change) change(profile, cluster);
    const auto points = simulate_scaling(ScalingModel(profile, cluster), {published.gpus},
                                         {{published.batch, published.epochs}}, {.evaluators = published.evaluators});
    result.push_back(points[0].training->seconds / 60 / published.minutes);
  }
  return result;
}

std::size_t within_30_percent(const std::vector<double>& ratios) {
  return static_cast<std::size_t>(
      std::ranges::count_if(ratios, [](double ratio) { return std::abs(ratio - 1) <= 0.3; }));
}

TEST(PublishedResults, EightOfNineAreWithin30Percent) {
  const std::vector<double> all = ratios();
  EXPECT_GE(within_30_percent(all), 8u);
  for (std::size_t i = 0; i < all.size(); ++i)
    fmt::print("{} on {} GPUs: {:.2f} min published, {:+.0f}%\n", kPublished[i].profile, kPublished[i].gpus,
               kPublished[i].minutes, 100 * (all[i] - 1));
  // The one that is not: at an eighth of a volume per GPU, something that the model does not have takes half the step.
  EXPECT_LT(all[8], 0.7);
}

TEST(PublishedResults, EachTermIsNeeded) {
  const auto fails_with = [](const char* what, const Change& change) {
    EXPECT_LT(within_30_percent(ratios(change)), 8u) << what;
  };
  fails_with("no least time of a kernel", [](auto&, ClusterProfile& cluster) { cluster.kernel_seconds = 0; });
  fails_with("twice the least time", [](auto&, ClusterProfile& cluster) { cluster.kernel_seconds *= 2; });
  fails_with("recurrences count twice", [](TrainingProfile& net, auto&) { net.recurrent_steps *= 2; });
  fails_with("a network of half the speed",
             [](auto&, ClusterProfile& cluster) { cluster.network_link.bytes_per_second /= 2; });
  fails_with("a network of 100 times the latency",
             [](auto&, ClusterProfile& cluster) { cluster.network_link.latency_seconds *= 100; });
  fails_with("embeddings that all GPUs have", [](TrainingProfile& net, auto&) { net.exchange_bytes *= 3; });
  fails_with("an epoch of 168 samples that has two steps of 80, not three", [](TrainingProfile& net, auto&) {
    if (net.spatial) net.epoch_samples = 160;
  });
}

}  // namespace
}  // namespace tessera::dist::time_to_train_test
