#include "serve/core/picture_model.h"

#include "serve/core/steps/picture_step.h"

namespace tessera::serve {

ModelSettings with_memory_limit(ModelSettings settings) {
  if (settings.memory_limit_bytes == 0) settings.memory_limit_bytes = kPictureMemoryBytes;
  return settings;
}

Model make_picture_model(const ModelSettings& settings) {
  std::map<std::string, std::string> values;
  for (const char* key : {"width", "height", "channels", "layout", "scale", "fit", "order", "filling"}) {
    const auto found = settings.config.parameters().find(key);
    if (found != settings.config.parameters().end()) values[key] = found->second.string_value();
  }
  StepSettings parameters(values, "the parameters of the picture model '" + settings.config.name() + "'");
  return make_picture_graph(settings.config.name(), picture_options(parameters, {}));
}

}  // namespace tessera::serve
