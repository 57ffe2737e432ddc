#include "tessera/deep_compression.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "base/error.h"
#include "compress/core/compression_costs.h"
#include "compress/core/folds.h"
#include "compress/core/graph_facts.h"
#include "compress/deep_compression/weight_sharing.h"
#include "compress/quantise/quantisable_layers.h"
#include "io/output_file.h"
#include "io/package.h"
#include "io/package/coded_weights.h"
#include "runtime/session/random_inputs.h"
#include "tessera/version.h"
#include "train/net/layer_weights.h"
#include "train/net/trained_model.h"
#include "train/run/training_setup.h"

namespace tessera {
namespace {

using compress::SharedWeights;
using Shares = std::map<std::string, SharedWeights>;

const Tensor& constant_of(const Model& model, const std::string& name) {
  const Tensor* constant = model.graph().constant(model.graph().find_value(name));
  require(constant != nullptr, ErrorKind::invalid_argument, "the model has no constant '{}'", name);
  return *constant;
}

// The pruned model with the weights that a trained model of codebooks looks up, each weight a value of its own.
Model with_values(const Model& pruned, const Model& tuned, Shares& shares) {
  std::map<std::string, Tensor> values;
  for (auto& [name, each] : shares) {
    const auto trained = constant_of(tuned, compress::codebook_of(name)).values<float>();
    std::ranges::copy(trained, each.codebook.mutable_values<float>().begin() + 1);
    values[name] = each.expand();
  }
  const ir::Graph& graph = pruned.graph();
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    const ir::ValueId id{static_cast<std::int32_t>(i)};
    const Tensor* constant = graph.constant(id);
    const std::string& name = graph.value(id).name;
    if (constant == nullptr || constant->dtype() != DType::f32 || values.contains(name)) continue;
    const Tensor* trained = tuned.graph().constant(tuned.graph().find_value(name));
    if (trained != nullptr) values[name] = *trained;
  }
  return train::with_weights(pruned, values);
}

// The signal-to-noise ratio of the shared weights in decibels; infinite if nothing differs.
double sharing_snr_db(const Tensor& weights, const Tensor& shared) {
  double signal = 0, noise = 0;
  for (std::int64_t i = 0; i < weights.elements(); ++i) {
    const double w = static_cast<double>(weights.data<float>()[i]), s = static_cast<double>(shared.data<float>()[i]);
    signal += w * w;
    noise += (w - s) * (w - s);
  }
  return noise > 0 ? 10 * std::log10(signal / noise) : std::numeric_limits<double>::infinity();
}

std::int64_t coded_bytes(const Tensor& weights) {
  const io::WeightPiece piece{0,
                              {static_cast<const std::byte*>(weights.raw()), static_cast<std::size_t>(weights.bytes())},
                              static_cast<int>(sizeof(float))};
  return static_cast<std::int64_t>(io::encode_weights({piece}).size());
}

// One run of the recipe, on one split of the data.
class Run {
 public:
  Run(const CompressionRecipe& recipe, const CompressionHooks& hooks, TrainingConfig config, std::int64_t fold)
      : recipe_(recipe), hooks_(hooks), config_(std::move(config)) {
    account_.fold = fold;
    const std::string name = fold > 0 ? fmt::format("fold-{}.tsr", fold) : "model.tsr";
    account_.path = (std::filesystem::path(config_.output) / name).string();
    config_.output.clear();  // the stages write nothing
    config_.prune.reset();
  }

  CompressedFold run() {
    io::check_output(account_.path);  // before any work is done
    const Model dense = train_dense();
    const Model pruned = prune(recipe_.dictionary ? with_dictionaries(dense, *recipe_.dictionary) : dense);
    write(recipe_.share ? share(pruned) : without_sharing(pruned), dense);
    return account_;
  }

 private:
  Model train_stage(const Model& net, const TrainingConfig& config, const std::string& stage, double& metric) {
    Trainer trainer(net, config);
    TrainingHooks hooks;
    hooks.cancellation = hooks_.cancellation;
    hooks.progress = [&](std::int64_t step, std::int64_t steps) {
      if (hooks_.progress) hooks_.progress(account_.fold, stage, step, steps);
    };
    const TrainingResult result = trainer.run(hooks);
    trained_.emplace_back(stage, trainer.model());
    if (result.interrupted)
      fail(ErrorKind::cancelled, "the recipe was stopped in its stage '{}' after {} steps; its nets so far are in {}",
           stage, result.steps, write_trained());
    if (result.evaluation) {
      metric = result.evaluation->value;
      account_.metric = result.evaluation->metric;
    }
    return trained_.back().second;
  }

  // Writes the nets of the stages so far beside the package, the last of them not fully trained. Returns their paths.
  std::string write_trained() const {
    std::string paths;
    for (const auto& [stage, net] : trained_) {
      const std::filesystem::path path = std::filesystem::path(account_.path).replace_extension(stage + ".onnx");
      net.save(path);
      paths += (paths.empty() ? "" : ", ") + path.string();
    }
    return paths;
  }

  TrainingConfig config_of(const StageOptions& stage) const {
    TrainingConfig config = config_;
    config.optimiser.learning_rate =
        stage.learning_rate > 0 ? stage.learning_rate : config_.optimiser.learning_rate / 5;
    if (stage.epochs > 0) config.epochs = stage.epochs;
    return config;
  }

  Model train_dense() {
    const Model net = train::load_net(config_.model);
    account_.parameters = compress::count_parameters(net.graph());
    return train_stage(net, config_, "dense", account_.dense);
  }

  Model prune(const Model& dense) {
    TrainingConfig config = config_of(recipe_.retrain);
    config.prune = recipe_.training.prune;
    return train_stage(dense, config, "pruned", account_.pruned);
  }

  static CompressedLayer account_of(const train::LayerWeight& layer, const Tensor& weights) {
    return {
        layer.name, weights.elements(), weights.elements() - std::ranges::count(weights.values<float>(), 0.0f), 0, 0,
        {}};
  }

  Model without_sharing(const Model& pruned) {
    account_.shared = account_.pruned;
    for (const train::LayerWeight& layer : train::layer_weights(pruned.graph()))
      account_.layers.push_back(account_of(layer, *pruned.graph().constant(layer.value)));
    return pruned;
  }

  Model share(const Model& pruned) {
    Shares shares;
    TrainingConfig config = config_of(recipe_.tune);
    for (const train::LayerWeight& layer : train::layer_weights(pruned.graph())) {
      const Tensor& weights = *pruned.graph().constant(layer.value);
      CompressedLayer account = account_of(layer, weights);
      if (!train::matches_any(recipe_.share->exclude, layer.name) && account.nonzero > 0) {
        int bits = recipe_.share->bits;
        for (const auto& [pattern, other] : recipe_.share->layers) {
          if (train::matches_any({pattern}, layer.name)) bits = other;
        }
        const SharedWeights& each = shares[layer.name] = compress::share_weights(weights, bits);
        account.values = each.codebook.elements() - 1;
        account.sharing_snr_db = sharing_snr_db(weights, each.expand());
        config.model.frozen.push_back(compress::zero_of(layer.name));
      }
      account_.layers.push_back(std::move(account));
    }
    config.optimiser.no_decay.push_back("*/codebook");
    const Model looked_up(std::make_shared<const ir::Graph>(compress::with_shared_weights(pruned.graph(), shares)));
    const Model tuned = train_stage(looked_up, config, "shared", account_.shared);
    return with_values(pruned, tuned, shares);
  }

  void write(const Model& model, const Model& dense) {
    const io::PackageInfo info{TESSERA_VERSION, "any", "any", "f32", {}, {}, false};
    account_.file_bytes = io::write_package(account_.path, model.graph(), info, {}, true).file_bytes;
    // The quality is measured on the package as it is read back from the file.
    const Model read = Model::load(account_.path);
    account_.compressed = Trainer(read, config_).evaluate().value;
    account_.multiply_adds_dense = count_multiply_adds(dense);
    account_.multiply_adds = count_multiply_adds(read);
    for (CompressedLayer& layer : account_.layers) layer.coded_bytes = coded_bytes(constant_of(read, layer.name));
    CompressionCosts& costs = account_.costs;
    costs.bytes_before = compress::constant_bytes(dense.graph());
    costs.bytes_after = costs.file_bytes = account_.file_bytes;
    costs.metric = account_.metric;
    costs.metric_before = account_.dense;
    costs.metric_after = account_.compressed;
    if (hooks_.measure) measure(dense, read);
  }

  void measure(const Model& dense, const Model& compressed) {
    compress::measure_costs(account_.costs, dense, compressed, runtime::random_inputs(dense, 1), {});
  }

  const CompressionRecipe& recipe_;
  const CompressionHooks& hooks_;
  TrainingConfig config_;
  CompressedFold account_;
  std::vector<std::pair<std::string, Model>> trained_;  // by stage
};

}  // namespace

std::vector<CompressedFold> run_deep_compression(const CompressionRecipe& recipe, const CompressionHooks& hooks) {
  require(!recipe.training.output.empty(), ErrorKind::invalid_argument,
          "'output' is missing: the folder for the compressed models");
  require(recipe.training.prune.has_value() || recipe.dictionary.has_value(), ErrorKind::invalid_argument,
          "the table [prune] is missing: how many weights become zero");
  require(recipe.training.epochs > 0, ErrorKind::invalid_argument,
          "the length of a recipe's training is given by train.epochs");
  require(recipe.folds == 0 || recipe.folds >= 2, ErrorKind::invalid_argument, "folds is {}, expected 0 or at least 2",
          recipe.folds);
  io::make_folder(recipe.training.output);
  std::vector<CompressedFold> folds;
  for (std::int64_t i = 0; i < std::max<std::int64_t>(1, recipe.folds); ++i) {
    TrainingConfig config = recipe.training;
    if (recipe.folds > 0) config.data = compress::fold_of(config.data, recipe.folds, i, config.seed);
    folds.push_back(Run(recipe, hooks, std::move(config), recipe.folds > 0 ? i + 1 : 0).run());
    if (hooks.fold) hooks.fold(folds.back());
  }
  return folds;
}

}  // namespace tessera
