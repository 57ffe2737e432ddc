// Deep Compression (Han, Mao and Dally, arXiv:1510.00149): a net is trained, pruned, given weights that share a few
// values, and written as a package whose weights are Huffman codes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/compression_costs.h"
#include "tessera/dictionary.h"
#include "tessera/train.h"

namespace tessera {

// A training that goes on from the stage before, in place of the learning rate and the length of the first one.
struct StageOptions {
  double learning_rate = 0;  // 0: a fifth of the first stage's
  std::int64_t epochs = 0;   // 0: as many as the first stage's
};

struct ShareOptions {
  int bits = 5;                       // a layer's weights have at most 2^bits values besides zero; 1 to 8
  std::map<std::string, int> layers;  // other numbers of bits, by patterns of names of weights
  std::vector<std::string> exclude;   // patterns of names of weights that keep values of their own
};

struct CompressionRecipe {
  // Training of the dense net. Its `prune` applies to the second stage; its length is given in epochs; `output` names
  // the folder for the packages.
  TrainingConfig training;
  // If set, the dense net's convolutions get dictionaries before the second stage, which then trains vectors and
  // coefficients. `prune` is optional in this case; where it is given, it prunes coefficients.
  std::optional<DictionaryOptions> dictionary;
  StageOptions retrain;               // with weights that are pruned step by step
  std::optional<ShareOptions> share;  // nothing: weights keep values of their own
  StageOptions tune;                  // of the values that weights share
  // 2 or more: all samples, those for training and for tests together, are divided into so many folds; the recipe
  // runs once for each of them, which is what the nets are tested on. Needs data in .npz files or arrays.
  std::int64_t folds = 0;
};

// The result of the recipe for the weights of one layer.
struct CompressedLayer {
  std::string name;
  std::int64_t weights = 0, nonzero = 0;
  std::int64_t values = 0;       // distinct shared values besides zero; 0: each weight has its own
  std::int64_t coded_bytes = 0;  // size of the weights in the package
  // SNR of the shared weights with the pruned weights as signal, before the shared values are tuned; nothing where
  // weights share no values.
  std::optional<double> sharing_snr_db;
};

struct CompressedFold {
  std::int64_t fold = 0;  // counted from 1; 0: the recipe has no folds
  std::string metric;
  double dense = 0, pruned = 0, shared = 0;  // the metric after each stage
  double compressed = 0;                     // the metric of the package as read back from its file
  std::int64_t parameters = 0;               // float32 numbers of the dense net
  std::int64_t file_bytes = 0;
  double multiply_adds_dense = 0, multiply_adds = 0;  // for one sample, of the dense net and of the package
  std::string path;
  std::vector<CompressedLayer> layers;
  CompressionCosts costs;  // of the package beside the dense net; times and memory with CompressionHooks::measure

  // Bytes of the dense net's parameters for each byte of the whole file.
  double ratio() const { return 4 * static_cast<double>(parameters) / static_cast<double>(file_bytes); }
};

struct CompressionHooks {
  // Told of each step; `stage` is "dense", "pruned" or "shared".
  std::function<void(std::int64_t fold, const std::string& stage, std::int64_t step, std::int64_t steps)> progress;
  std::function<void(const CompressedFold&)> fold;  // told when it is done
  const Cancellation* cancellation = nullptr;
  bool measure = false;  // measure time and memory of a run on one sample of random data, for each fold
};

// Runs the recipe. Returns one entry per fold. Throws the Errors of Trainer; invalid_argument for options that do not
// fit together; and cancelled, in which case the nets of the finished stages lie beside the package
// ("fold-1.dense.onnx") and the message names them.
std::vector<CompressedFold> run_deep_compression(const CompressionRecipe& recipe, const CompressionHooks& hooks = {});

// A recipe from TOML text: the tables of a training (docs/training.md), `folds`, and the tables retrain, share and tune
// (docs/deep_compression.md), with settings as of parse_training_config. Throws Error(invalid_argument).
CompressionRecipe parse_compression_recipe(const std::string& toml, const std::string& where,
                                           const std::vector<std::string>& settings = {});

}  // namespace tessera
