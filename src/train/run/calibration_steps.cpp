#include "train/run/calibration_steps.h"

#include <map>
#include <memory>
#include <string>

#include "models/models.h"
#include "train/net/training_step.h"

namespace tessera::train {
namespace {

struct CalibrationStep {
  std::string net;
  std::map<std::string, std::int64_t> sizes;
  std::string optimiser = "sgd";
};

// Widths lie between those that nets usually have, so that predictions interpolate.
std::vector<CalibrationStep> steps() {
  return {
      {"mlp", {{"batch", 48}, {"features", 80}, {"width", 112}}},
      {"mlp", {{"batch", 160}, {"features", 400}, {"width", 720}}, "adam"},
      {"mlp", {{"batch", 24}, {"features", 600}, {"width", 1900}}},
      {"cnn_digits", {{"batch", 96}, {"size", 8}, {"width", 16}}, "adam"},
      {"cnn_digits", {{"batch", 24}, {"size", 24}, {"width", 40}}},
      {"cnn_digits", {{"batch", 64}, {"size", 28}, {"width", 20}}, "adamw"},
      {"conv1d", {{"batch", 40}, {"length", 48}, {"width", 24}}, "adam"},
      {"conv1d", {{"batch", 96}, {"length", 40}, {"width", 56}}},
      {"resnet8", {{"batch", 24}, {"width", 24}}},
      {"resnet8", {{"batch", 48}, {"width", 80}}},
      {"resnet8", {{"batch", 32}, {"width", 144}}},
      {"unet_small", {{"batch", 20}, {"size", 28}, {"width", 8}}, "adam"},
      {"unet_small", {{"batch", 4}, {"size", 64}, {"width", 24}}},
      {"gru_classifier", {{"batch", 56}, {"time", 36}, {"channels", 1}, {"width", 28}}, "adam"},
      {"gru_classifier", {{"batch", 12}, {"time", 48}, {"channels", 24}, {"width", 176}}},
      {"lstm_classifier", {{"batch", 48}, {"time", 30}, {"channels", 8}, {"width", 48}}},
      {"lstm_classifier", {{"batch", 12}, {"time", 40}, {"channels", 160}, {"width", 400}}, "adam"},
      {"transformer_small", {{"batch", 12}, {"seq", 56}, {"vocabulary", 300}, {"width", 96}, {"heads", 3}}, "adam"},
      {"masked_lm", {{"batch", 24}, {"seq", 72}, {"vocabulary", 180}, {"width", 128}, {"heads", 8}}, "adamw"},
      {"masked_lm", {{"batch", 4}, {"seq", 144}, {"vocabulary", 6000}, {"width", 320}, {"heads", 5}}, "adamw"},
      {"dlrm_small", {{"batch", 160}, {"tables", 6}, {"rows", 150}, {"width", 12}}, "adam"},
      {"dlrm_small", {{"batch", 320}, {"tables", 16}, {"rows", 9000}, {"width", 48}}},
  };
}

}  // namespace

std::vector<std::function<Model()>> calibration_steps() {
  std::vector<std::function<Model()>> makers;
  for (const CalibrationStep& step : steps()) {
    makers.emplace_back([step] {
      models::BuildOptions options;
      options.dims = step.sizes;
      const Model net(std::make_shared<const ir::Graph>(models::build_model(step.net, options)));
      return usual_training_step(net, step.optimiser);
    });
  }
  return makers;
}

}  // namespace tessera::train
