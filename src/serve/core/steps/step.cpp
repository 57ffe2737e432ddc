#include "serve/core/steps/step.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "io/file.h"
#include "serve/core/requests/classification.h"

namespace tessera::serve {
namespace {

constexpr std::int64_t kMostFileBytes = 16 << 20;

}  // namespace

std::string StepSettings::text(const std::string& key, const std::string& otherwise) {
  read_.insert(key);
  const auto found = values_.find(key);
  return found != values_.end() ? found->second : otherwise;
}

std::string StepSettings::choice(const std::string& key, const std::vector<std::string>& choices) {
  const std::string value = text(key, choices.front());
  require(std::ranges::find(choices, value) != choices.end(), ErrorKind::invalid_argument,
          "'{}' in {} is '{}', expected {}", key, where_, value, fmt::join(choices, ", "));
  return value;
}

double StepSettings::number(const std::string& key, double otherwise, double least, double most) {
  const std::string value = text(key);
  if (value.empty()) return otherwise;
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  require(error == std::errc() && end == value.data() + value.size() && number >= least && number <= most,
          ErrorKind::invalid_argument, "'{}' in {} is '{}', expected a number from {} to {}", key, where_, value, least,
          most);
  return number;
}

std::int64_t StepSettings::whole(const std::string& key, std::int64_t otherwise, std::int64_t least,
                                 std::int64_t most) {
  const double value =
      number(key, static_cast<double>(otherwise), static_cast<double>(least), static_cast<double>(most));
  require(value == std::floor(value), ErrorKind::invalid_argument, "'{}' in {} is {}, expected a whole number", key,
          where_, value);
  return static_cast<std::int64_t>(value);
}

bool StepSettings::boolean(const std::string& key, bool otherwise) {
  return choice(key, otherwise ? std::vector<std::string>{"true", "false"}
                               : std::vector<std::string>{"false", "true"}) == "true";
}

void StepSettings::check_all_read() const {
  for (const auto& [key, value] : values_)
    require(read_.contains(key), ErrorKind::invalid_argument, "{} has the unknown key '{}', expected {}", where_, key,
            fmt::join(read_, ", "));
}

ValueDescription output_of(StepSource& source, const std::string& key, DType dtype) {
  const std::vector<ValueDescription>& outputs = source.model.outputs();
  const std::string name = source.settings.text(key, outputs.empty() ? "" : outputs.front().name);
  const auto found = std::ranges::find(outputs, name, &ValueDescription::name);
  require(found != outputs.end(), ErrorKind::invalid_argument, "the model has no output '{}'", name);
  require(found->dtype == dtype, ErrorKind::invalid_argument, "the output '{}' is {}, expected elements of {}", name,
          found->type, name_of(dtype));
  return *found;
}

std::vector<std::string> lines_of(const StepSource& source, const std::string& name) {
  io::InputFile file = io::InputFile::open_below(source.folder, name);
  require(file.bytes() <= kMostFileBytes, ErrorKind::over_budget, "{} has {} bytes, at most {} are read", file.name(),
          file.bytes(), kMostFileBytes);
  std::string text(static_cast<std::size_t>(file.bytes()), '\0');
  file.read(std::as_writable_bytes(std::span(text)));
  return parse_labels(text);
}

void require_rank(const Tensor& tensor, const std::string& name, std::int64_t rank) {
  if (tensor.rank() != rank)
    throw Failure(Reason::internal, fmt::format("the network's output '{}' has the shape {}, expected {} dimensions",
                                                name, to_string(tensor.shape()), rank));
}

std::unique_ptr<PipelineStep> make_step_before(StepSource source) {
  const std::string kind = source.settings.choice("kind", {"text", "picture"});
  return kind == "text" ? make_text_step(std::move(source)) : make_picture_step(std::move(source));
}

std::unique_ptr<PipelineStep> make_step_after(StepSource source, const StepSettings& before) {
  const std::string kind = source.settings.choice("kind", {"labels", "embedding", "ctc", "detection"});
  if (kind == "labels") return make_labels_step(std::move(source));
  if (kind == "embedding") return make_embedding_step(std::move(source));
  if (kind == "ctc") return make_ctc_step(std::move(source));
  return make_detection_step(std::move(source), before);
}

}  // namespace tessera::serve
