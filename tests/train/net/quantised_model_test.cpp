// The export of a net that was trained with fake quantisation, as integers.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "train/net/fake_quantisation.h"
#include "train/net/fake_quantisation_nets.h"
#include "train/run/checkpoint.h"

namespace tessera::train::quantised_model_test {
namespace {

using test::expect_error_containing;
using namespace fake_quantisation_nets;

// The logits of the evaluation graph, which rounds in float, with the variables of a training.
Tensor evaluated(Trainer& trainer, const TrainingGraphOptions& options, const Tensor& x) {
  const test::TemporaryFolder folder;
  const std::string path = (folder.path() / "state.npz").string();
  trainer.save(path);
  TrainingGraphOptions of_all = options;
  of_all.target_dims = {ir::Dim(x.shape()[0])};
  const TrainingGraph made =
      make_evaluation_graph(model_of(small_net()).with_dims({{"batch", x.shape()[0]}}).graph(), of_all);
  Session session(model_of(made.graph));
  const Checkpoint state = read_checkpoint(path);
  for (const ir::Variable& each : made.graph.variables())
    session.set_variable(each.name, state.variables.at(each.name));
  return session.run({{"x", x}, {"y", samples(2).at("y")}}).at("logits").tensor();
}

// Integers round biases to steps of the products, and codes at the border of two may differ by the order in which
// floats are summed, which is a step of the data. Without quantised data neither is the case.
void expect_close(const Tensor& exported, const Tensor& evaluated, int activations, const std::string& what) {
  double largest = 0, sum = 0, most = 0;
  for (std::int64_t i = 0; i < evaluated.elements(); ++i) {
    const double expected = static_cast<double>(evaluated.data<float>()[i]);
    const double difference = std::abs(static_cast<double>(exported.data<float>()[i]) - expected);
    largest = std::max(largest, std::abs(expected));
    most = std::max(most, difference);
    sum += difference;
  }
  EXPECT_LT(sum / static_cast<double>(evaluated.elements()), (activations > 0 ? 5e-3 : 1e-5) * largest) << what;
  EXPECT_LT(most, (activations > 0 ? 4e-2 : 1e-4) * largest) << what;
}

TEST(QuantisedModel, TheExportedIntegersGiveWhatWasEvaluated) {
  for (const int bits : {8, 4}) {
    for (const int activations : {8, 0}) {
      for (const char* ranges : {"learned", "averaged"}) {
        for (const char* norm : {"kept", "folded", "kept and frozen late", "frozen"}) {
          CompressOptions compress{.weights = bits, .activations = activations, .ranges = ranges};
          if (std::string(norm) == "folded") compress.batch_norm = norm;
          if (std::string(norm) == "kept and frozen late") compress.freeze_step = 7;
          TrainingConfig config = config_with(compress);
          config.steps = 10;
          TrainingGraphOptions options = graph_options(compress);
          if (std::string(norm) == "frozen") {
            config.model.batch_norm = norm;
            options.batch_norm = BatchNorm::frozen;
          }
          const std::string what = fmt::format("{} bits, {} {} {}", bits, activations, ranges, norm);
          Trainer trainer(model_of(small_net()), config);
          trainer.run();
          const Model exported = trainer.model();
          const Tensor x = samples(2).at("x");
          expect_close(Session(exported).run({{"x", x}}).at("logits").tensor(), evaluated(trainer, options, x),
                       activations, what);
          int integers = 0;
          for (const ir::NodeId id : exported.graph().order()) {
            const ir::Node& node = exported.graph().node(id);
            EXPECT_NE(node.op, "BatchNormalization") << what;
            if (node.op != "DequantizeLinear" || !exported.graph().is_constant(node.inputs[0])) continue;
            integers +=
                exported.graph().constant(node.inputs[0])->dtype() == (bits == 8 ? DType::i8 : DType::i4) ? 1 : 0;
          }
          EXPECT_EQ(integers, 4) << what;
        }
      }
    }
  }
}

TEST(QuantisedModel, SurvivesAFile) {
  const test::TemporaryFolder folder;
  Trainer trainer(model_of(small_net()), config_with({.weights = 4}));
  trainer.run();
  const std::filesystem::path path = folder.path() / "quantised.onnx";
  trainer.model().save(path);
  const Tensor x = samples(2).at("x");
  const Tensor read = Session(Model::load(path)).run({{"x", x}}).at("logits").tensor();
  expect_close(read, Session(trainer.model()).run({{"x", x}}).at("logits").tensor(), 0, "read");
}

TEST(QuantisedModel, LeavesLayersThatAreExcludedAsTheyAre) {
  TrainingConfig config = config_with({.exclude = {"fc*"}});
  Trainer trainer(model_of(small_net()), config);
  trainer.run();
  const Model exported = trainer.model();
  const ir::Graph& graph = exported.graph();
  EXPECT_TRUE(graph.find_value("conv2_quantised").valid());
  EXPECT_TRUE(graph.is_constant(graph.find_value("fc1")));
  EXPECT_FALSE(graph.find_value("fc1_quantised").valid());
}

TEST(QuantisedModel, RefusesWhatItCannotQuantise) {
  const auto refused = [](const CompressOptions& compress, const char* part) {
    expect_error_containing(ErrorKind::invalid_argument, part,
                            [&] { Trainer trainer(model_of(small_net()), config_with(compress)); });
  };
  refused({.exclude = {"conv9*"}}, "compress.exclude: no weight of a layer has a name like 'conv9*'");
  refused({.exclude = {"*"}}, "no convolution or product with float32 weights that could be quantised");
  refused({.start_step = 30}, "compress.start_step is 30, but the training has 30 steps");
  refused({.weights = 2}, "compress.weights is 2, expected 8 or 4 bits");
  expect_error_containing(ErrorKind::invalid_argument, "no training step has observed",
                          [&] { Trainer(model_of(small_net()), config_with({})).model(); });
}

}  // namespace
}  // namespace tessera::train::quantised_model_test
