#include "base/error.h"
#include "models/models.h"
#include "models/nets.h"

namespace tessera::models {
namespace {

// Nodes are made for each layer or table, so that their number alone can take all memory.
constexpr std::int64_t kMostRepeats = 10'000;

constexpr ModelEntry kTable[] = {
    {"lenet5", "digits 28x28, 10 classes (LeCun et al. 1998)", "batch", build_lenet5},
    {"resnet18", "images 224x224, 1000 classes (arXiv:1512.03385)", "batch", build_resnet18},
    {"resnet50", "the same, 50 layers of bottlenecks", "batch", build_resnet50},
    {"mobilenet_v2", "inverted residuals, 224x224 (arXiv:1801.04381)", "batch", build_mobilenet_v2},
    {"mobilenet_v3_small", "with squeeze-excite and HardSwish (arXiv:1905.02244)", "batch", build_mobilenet_v3_small},
    {"efficientnet_b0", "with SiLU and squeeze-excite (arXiv:1905.11946)", "batch", build_efficientnet_b0},
    {"vgg16", "plain 3x3 convolutions, 138 M parameters (arXiv:1409.1556)", "batch", build_vgg16},
    {"unet2d", "segmentation of 256x256 images (arXiv:1505.04597)", "batch", build_unet2d},
    {"unet3d", "segmentation of 64x64x64 volumes (arXiv:1606.06650)", "batch", build_unet3d},
    {"ssd", "detector 300x300 with NonMaxSuppression (after arXiv:1512.02325)", "batch", build_ssd},
    {"bert_base", "12 layers, width 768 (arXiv:1810.04805)", "batch, seq", build_bert_base},
    {"bert_mini", "4 layers, width 256", "batch, seq", build_bert_mini},
    {"vit_b_16", "vision transformer, patches of 16x16 (arXiv:2010.11929)", "batch", build_vit_b_16},
    {"gpt2", "decoder of 12 layers, width 768, causal, no cache (Radford et al. 2019)", "batch, seq", build_gpt2},
    {"lstm", "acoustic model: 2 bidirectional layers of 512, 80 features, 29 classes", "batch, time", build_lstm},
    {"dlrm", "recommendation: 26 tables of 10,000 x 64, dense 13 (arXiv:1906.00091)", "batch", build_dlrm},
    // Small nets to train.
    {"mlp", "perceptron of 2 hidden layers of 256", "batch, features, width, layers, classes", build_mlp},
    {"lenet_300_100", "digits 28x28, perceptron of 300 and 100 (arXiv:1510.00149)", "batch", build_lenet_300_100},
    {"lenet5_caffe", "digits 28x28, Caffe's LeNet-5, 431,080 parameters (arXiv:1510.00149)", "batch",
     build_lenet5_caffe},
    {"cnn_digits", "digits 8x8, 3 convolutions", "batch, size, width, classes", build_cnn_digits},
    {"conv1d", "signals of 40 values, 4 convolutions with normalisation", "batch, length, width, classes",
     build_conv1d},
    {"gru_classifier", "signals of 40 steps, bidirectional GRU of 32", "batch, channels, time, width, classes",
     build_gru_classifier},
    {"lstm_classifier", "the same with an LSTM", "batch, channels, time, width, classes", build_lstm_classifier},
    {"resnet8", "images 32x32, 10 classes, 3 blocks (arXiv:1512.03385, 4.2)", "batch, width, classes", build_resnet8},
    {"resnet18_cifar", "resnet18 for images 32x32, 10 classes", "batch, classes", build_resnet18_cifar},
    {"unet_small", "segmentation of 32x32 images, 2 levels", "batch, channels, size, width, classes", build_unet_small},
    {"transformer_small", "classifier of 64 tokens, 2 layers of 64",
     "batch, seq, vocabulary, width, heads, layers, classes", build_transformer_small},
    {"masked_lm", "the same encoder with scores of each token", "batch, seq, vocabulary, width, heads, layers",
     build_masked_lm},
    {"dlrm_small", "dlrm with 8 tables of 100 x 8, dense 4, scores before the sigmoid",
     "batch, tables, rows, width, dense, hidden", build_dlrm_small},
};

}  // namespace

std::span<const ModelEntry> all_models() {
  return kTable;
}

ir::Graph build_model(std::string_view name, const BuildOptions& options) {
  std::string names;
  for (const ModelEntry& entry : kTable) {
    if (entry.name == name) {
      for (const auto& [dim, size] : options.dims) {
        require(size > 0, ErrorKind::invalid_argument, "dimension '{}' cannot be {}", dim, size);
        const bool known = (", " + std::string(entry.dims) + ",").find(", " + dim + ",") != std::string::npos;
        require(known, ErrorKind::invalid_argument, "'{}' has no dimension '{}'; its dimensions: {}", name, dim,
                entry.dims);
        const bool is_repeated = dim == "layers" || dim == "tables";
        require(!is_repeated || size <= kMostRepeats, ErrorKind::over_budget,
                "{} {} are more than the {} of a net here", size, dim, kMostRepeats);
      }
      return entry.build(options);
    }
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  fail(ErrorKind::invalid_argument, "there is no net '{}'; nets: {}", name, names);
}

}  // namespace tessera::models
