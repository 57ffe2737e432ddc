// A model's configuration, by the first byte config.pbtxt, config.toml or the JSON text of a request. What is accepted
// must be within the bounds that the server relies on, and the settings of its steps within those of a picture's
// options.
#include <string>

#include "serve/core/config/model_settings.h"
#include "serve/core/steps/picture_step.h"
#include "target.h"
#include "tessera/error.h"

namespace tessera::fuzz {
namespace {

void check_bounds(const serve::ModelSettings& settings) {
  const bool as_said = settings.goal_ns >= 0 && settings.memory_limit_bytes >= 0 && settings.threads >= 0 &&
                       settings.weight > 0 && settings.delay_ns() >= 0 && settings.queue_limit() > 0 &&
                       settings.instances() > 0 && settings.config.max_batch_size() >= 0;
  if (!as_said) finding("settings are accepted that are out of range");
}

void check_picture(const std::map<std::string, std::string>& values) {
  serve::StepSettings settings(values, "[before]");
  serve::PictureOptions usual;
  usual.width = usual.height = 8;
  const serve::PictureOptions options = serve::picture_options(settings, usual);
  if (options.width < 1 || options.height < 1 || options.channels < 1 || options.channels > 3)
    finding("options of a picture are accepted that are out of range");
}

}  // namespace

void serve_settings(std::span<const std::byte> input) {
  const auto [tag, rest] = split_tag(input);
  const std::string text(reinterpret_cast<const char*>(rest.data()), rest.size());
  try {
    const serve::ModelSettings settings = tag % 4 == 0   ? serve::parse_pbtxt(text, "config.pbtxt")
                                          : tag % 4 == 2 ? serve::parse_config_json(text, "request")
                                                         : serve::parse_model_toml(text, "config.toml");
    check_bounds(settings);
    check_picture(settings.before);
  } catch (const Error&) {
  }
}

}  // namespace tessera::fuzz
