#include "serve/core/models/picture_model.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "serve/core/models/pipeline.h"
#include "serve/core/requests/call.h"
#include "serve/core/steps/picture_step.h"

namespace tessera::serve {
namespace {

// Stands where other pipelines have a network: its outputs are its inputs.
class NoNetwork final : public Servable {
 public:
  explicit NoNetwork(ServableInfo info) : info_(std::move(info)) {}

  const ServableInfo& info() const override { return info_; }
  bool submit(const std::shared_ptr<Call>& call) override {
    Outcome outcome;
    outcome.response = {info_.name, info_.version, call->request.id, {}, false};
    for (InferenceInput& input : call->request.inputs)
      outcome.response.outputs.push_back({input.name, std::move(input.tensor)});
    const ExecutionTimes times{};
    statistics_.executed(1, times);
    statistics_.succeeded(now_ns() - call->arrival_ns, 0, 1, times);
    call->done(std::move(outcome));
    return true;
  }
  StatisticsSnapshot statistics() const override { return statistics_.snapshot(); }
  Statistics& recorder() override { return statistics_; }
  void drain() override {}

 private:
  const ServableInfo info_;
  Statistics statistics_;
};

// The step's outputs under the names of the model's.
class PictureModelStep final : public PipelineStep {
 public:
  explicit PictureModelStep(std::unique_ptr<PipelineStep> step) : step_(std::move(step)) {}

  std::vector<TensorInfo> inputs() const override { return step_->inputs(); }
  std::vector<TensorInfo> outputs() const override {
    std::vector<TensorInfo> outputs = step_->outputs();
    outputs.push_back({"size", DType::i64, {2}});
    return outputs;
  }
  NamedValues run(Job& job, const NamedValues& values, const Cancellation& cancellation) override {
    NamedValues made = step_->run(job, values, cancellation);
    auto size = made.extract(kPictureSize);
    made.emplace("size", std::move(size.mapped()));
    return made;
  }

 private:
  std::unique_ptr<PipelineStep> step_;
};

}  // namespace

std::shared_ptr<Servable> make_picture_model(Arbiter& arbiter, const std::string& version, ModelSettings settings,
                                             const ImageMemory& images) {
  std::map<std::string, std::string> values;
  for (const char* key : {"width", "height", "channels", "layout", "scale", "fit", "order", "filling", "most_pixels"}) {
    const auto found = settings.config.parameters().find(key);
    if (found != settings.config.parameters().end()) values[key] = found->second.string_value();
  }
  const std::string name = settings.config.name();
  require(settings.memory_limit_bytes == 0, ErrorKind::invalid_argument,
          "the picture model '{}' has a limit of memory: its parameter most_pixels bounds it", name);
  StepSettings parameters(values, "the parameters of the picture model '" + name + "'");
  auto step = std::make_unique<PictureModelStep>(make_picture_step("tensor", picture_options(parameters, {}), images));
  ServableInfo info{name, version, settings.config.platform(), std::move(settings), step->outputs(), step->outputs()};
  return std::make_shared<Pipeline>(arbiter, std::move(step), std::make_shared<NoNetwork>(std::move(info)), nullptr);
}

}  // namespace tessera::serve
