#include "train/run/checkpoint.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "io/npz.h"
#include "train/net/micro_batches.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kState = "training.json";
constexpr std::string_view kPrefix = "checkpoint-", kEnding = ".npz";
constexpr int kVersion = 1;

json as_json(const EvaluationReport& report) {
  return {{"step", report.step},
          {"metric", report.metric},
          {"value", report.value},
          {"loss", report.loss},
          {"samples", report.samples},
          {"best", report.best},
          {"skipped", report.skipped_samples},
          {"data", report.data}};
}

EvaluationReport evaluation_of(const json& value) {
  return {value.at("step"),           value.at("metric"), value.at("value"),           value.at("loss"),
          value.at("samples"),        value.at("best"),   value.value("skipped", 0LL), {},
          value.value("data", "test")};
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
  state["plateau"] = {{"without_gain", checkpoint.plateau.without_gain}, {"share", checkpoint.plateau.share}};
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
  if (state.contains("plateau"))
    checkpoint.plateau = {state.at("plateau").at("without_gain"), state.at("plateau").at("share")};
  if (state.contains("best")) checkpoint.best = evaluation_of(state.at("best"));
}

// The step in a name of the form that checkpoint_name gives.
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

std::optional<std::int64_t> checkpoint_step(const fs::path& path) {
  return step_of(path.filename().string());
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

namespace {

// Whether the variable belongs to the optimiser, to moving averages, accumulation or pruning.
bool is_state(std::string_view name) {
  constexpr std::array<std::string_view, 4> kEndings = {"/first", "/second", "/average", "/mask"};
  return name.starts_with("train/") ||
         std::ranges::any_of(kEndings, [&](std::string_view ending) { return name.ends_with(ending); });
}

std::string listed(const std::vector<std::string>& names) {
  std::string list = fmt::format("'{}'", names[0]);
  if (names.size() > 1) list += fmt::format(" and {} more", names.size() - 1);
  return list;
}

void check_names(const std::vector<std::string>& names, const std::string& path, const char* lacks) {
  if (names.empty()) return;
  const auto weight = std::ranges::find_if_not(names, is_state);
  require(weight == names.end(), ErrorKind::invalid_argument,
          "'{}' is a checkpoint of another net: {} '{}'. Go on with the configuration that it was written with", path,
          lacks, weight == names.end() ? "" : *weight);
  fail(ErrorKind::invalid_argument,
       "'{}' is a checkpoint of a training with another optimiser, or with another moving average, accumulation, "
       "pruning or precision: {} {}. Go on with the configuration that it was written with, or start anew",
       path, lacks, listed(names));
}

}  // namespace

void check_fits(const Checkpoint& checkpoint, const VariableSnapshot& training, const fs::path& path) {
  std::vector<std::string> missing, foreign;
  std::set<std::string> known;
  for (const std::string& name : training.names()) {
    if (is_within_update(name)) continue;
    known.insert(name);
    const auto found = checkpoint.variables.find(name);
    if (found == checkpoint.variables.end()) {
      missing.push_back(name);
      continue;
    }
    const Tensor expected = training.variable(name);
    require(found->second.shape() == expected.shape() && found->second.dtype() == expected.dtype(),
            ErrorKind::invalid_argument,
            "'{}' is a checkpoint of a net with other sizes: '{}' is {}{} there, but {}{} here. Go on with the "
            "configuration that it was written with",
            path.string(), name, name_of(found->second.dtype()), to_string(found->second.shape()),
            name_of(expected.dtype()), to_string(expected.shape()));
  }
  for (const auto& [name, value] : checkpoint.variables) {
    if (!known.contains(name) && !is_within_update(name)) foreign.push_back(name);
  }
  check_names(missing, path.string(), "it has no");
  check_names(foreign, path.string(), "only it has");
}

}  // namespace tessera::train
