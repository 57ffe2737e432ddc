#include "serve/core/control/model_control.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "serve/core/models/repository_folder.h"

namespace tessera::serve {

ModelControl parse_model_control(const std::string& name) {
  if (name.empty()) return ModelControl::usual;
  if (name == "none") return ModelControl::none;
  if (name == "poll") return ModelControl::poll;
  if (name == "explicit") return ModelControl::by_request;
  fail(ErrorKind::invalid_argument, "there is no model control mode '{}'; the modes are none, poll and explicit",
       base::shown(name));
}

ReadyRule parse_ready_rule(const std::string& text) {
  if (text == "all") return {};
  if (text == "any") return {ReadyRule::Kind::any, {}};
  ReadyRule rule{ReadyRule::Kind::listed, {}};
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    rule.models.push_back(text.substr(begin, end - begin));
    require(is_name(rule.models.back()), ErrorKind::invalid_argument,
            "the server cannot be ready when '{}' is loaded: expected all, any, or names of models with commas between",
            base::shown(rule.models.back()));
    begin = end + 1;
  }
  return rule;
}

void check_control(const ControlOptions& options, double poll_seconds) {
  const bool by_request = options.mode == ModelControl::by_request;
  require(options.load.empty() || by_request, ErrorKind::invalid_argument,
          "models to load at the start can be named only with the model control mode explicit; otherwise all are "
          "loaded");
  require(poll_seconds == 0 || (options.mode != ModelControl::none && !by_request), ErrorKind::invalid_argument,
          "the repository is to be polled, but the model control mode {} takes no changes on disk",
          by_request ? "explicit" : "none");
  for (const std::string& name : options.load)
    require(name == "*" || is_name(name), ErrorKind::invalid_argument, "'{}' cannot be the name of a model",
            base::shown(name));
}

}  // namespace tessera::serve
