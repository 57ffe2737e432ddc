#include "train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "io/npz.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kState = "training.json";
constexpr std::string_view kPrefix = "checkpoint-", kEnding = ".npz";
constexpr int kVersion = 1;

json as_json(const EvaluationReport& report) {
  return {{"step", report.step}, {"metric", report.metric},   {"value", report.value},
          {"loss", report.loss}, {"samples", report.samples}, {"best", report.best}};
}

EvaluationReport evaluation_of(const json& value) {
  return {value.at("step"), value.at("metric"),  value.at("value"),
          value.at("loss"), value.at("samples"), value.at("best")};
}

json as_json(const Checkpoint& checkpoint) {
  json state = {{"version", kVersion},
                {"step", checkpoint.step},
                {"samples", checkpoint.samples},
                {"epoch", checkpoint.position.epoch},
                {"batch", checkpoint.position.batch},
                {"logged_loss", checkpoint.logged_loss},
                {"logged_runs", checkpoint.logged_runs},
                {"loss", checkpoint.loss},
                {"seconds", checkpoint.seconds},
                {"evaluations_since_best", checkpoint.evaluations_since_best}};
  if (checkpoint.best) state["best"] = as_json(*checkpoint.best);
  return state;
}

void read_state(const json& state, Checkpoint& checkpoint) {
  checkpoint.step = state.at("step");
  checkpoint.samples = state.at("samples");
  checkpoint.position = {state.at("epoch"), state.at("batch")};
  checkpoint.logged_loss = state.at("logged_loss");
  checkpoint.logged_runs = state.at("logged_runs");
  checkpoint.loss = state.at("loss").is_null() ? NAN : state.at("loss").get<double>();
  checkpoint.seconds = state.at("seconds");
  checkpoint.evaluations_since_best = state.at("evaluations_since_best");
  if (state.contains("best")) checkpoint.best = evaluation_of(state.at("best"));
}

// The step in a name of checkpoint_name's form.
std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kEnding)) return std::nullopt;
  const char* begin = name.data() + kPrefix.size();
  const char* end = name.data() + name.size() - kEnding.size();
  std::int64_t step = 0;
  const auto [stop, error] = std::from_chars(begin, end, step);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return step;
}

}  // namespace

void write_checkpoint(const fs::path& path, const Checkpoint& checkpoint) {
  std::map<std::string, Tensor> arrays = checkpoint.variables;
  const std::string text = as_json(checkpoint).dump();
  arrays[kState] =
      Tensor::from<std::uint8_t>({static_cast<std::int64_t>(text.size())},
                                 std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
  io::write_npz(path, arrays);
}

Checkpoint read_checkpoint(const fs::path& path) {
  Checkpoint checkpoint;
  checkpoint.variables = io::read_npz(path);
  const auto state = checkpoint.variables.find(kState);
  require(state != checkpoint.variables.end() && state->second.dtype() == DType::u8, ErrorKind::invalid_argument,
          "'{}' is no checkpoint: it has no array {}", path.string(), kState);
  const std::span<const std::uint8_t> bytes = state->second.values<std::uint8_t>();
  try {
    const json content = json::parse(bytes.begin(), bytes.end());
    const int version = content.at("version");
    require(version <= kVersion, ErrorKind::unsupported, "'{}' was written by a newer Tessera (checkpoint version {})",
            path.string(), version);
    read_state(content, checkpoint);
  } catch (const json::exception& error) {
    fail(ErrorKind::invalid_argument, "'{}' is no checkpoint: {}", path.string(), error.what());
  }
  checkpoint.variables.erase(state);
  return checkpoint;
}

std::string checkpoint_name(std::int64_t step) {
  return fmt::format("{}{:09}{}", kPrefix, step, kEnding);
}

std::vector<fs::path> checkpoints_in(const fs::path& folder) {
  require(fs::is_directory(folder), ErrorKind::not_found, "there is no folder '{}'", folder.string());
  std::vector<std::pair<std::int64_t, fs::path>> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (const std::optional<std::int64_t> step = step_of(entry.path().filename().string()))
      found.emplace_back(*step, entry.path());
  }
  std::ranges::sort(found, std::greater{});
  std::vector<fs::path> paths;
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

Checkpoint newest_checkpoint(const fs::path& path) {
  if (!fs::is_directory(path) && fs::exists(path)) return read_checkpoint(path);
  for (const fs::path& each : checkpoints_in(path)) {
    try {
      return read_checkpoint(each);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::invalid_argument && error.kind() != ErrorKind::io) throw;
      warn("passing over a damaged checkpoint: {}", error.message());
    }
  }
  fail(ErrorKind::not_found, "there is no checkpoint in '{}'", path.string());
}

}  // namespace tessera::train
