#include "serve/core/models/repository_folder.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "io/file.h"
#include "serve/core/requests/classification.h"

namespace tessera::serve {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kMostLabelBytes = 16 << 20;

}  // namespace

bool is_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  return !name.empty() && name.size() <= 200 && name[0] != '.' && std::ranges::all_of(name, allowed);
}

std::int64_t version_number(std::string_view name) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() && number > 0 ? number : 0;
}

std::vector<std::int64_t> chosen_versions(const fs::path& folder, const ModelSettings& settings) {
  std::vector<std::int64_t> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::int64_t number = version_number(entry.path().filename().string());
    if (number > 0 && entry.is_directory()) found.push_back(number);
  }
  std::ranges::sort(found);
  const inference::ModelVersionPolicy& policy = settings.config.version_policy();
  if (policy.has_all()) return found;
  if (policy.has_specific()) {
    std::vector<std::int64_t> wanted(policy.specific().versions().begin(), policy.specific().versions().end());
    std::erase_if(found, [&](std::int64_t version) { return std::ranges::find(wanted, version) == wanted.end(); });
    return found;
  }
  if (!policy.has_latest() && !settings.shares.empty()) {
    std::erase_if(found, [&](std::int64_t version) { return !settings.shares.contains(version); });
    return found;
  }
  const std::size_t latest = std::max<std::uint32_t>(policy.latest().num_versions(), 1);
  if (found.size() > latest) found.erase(found.begin(), found.end() - static_cast<std::ptrdiff_t>(latest));
  return found;
}

Labels read_labels(const fs::path& folder, const ModelSettings& settings) {
  Labels labels;
  for (const inference::ModelOutput& output : settings.config.output()) {
    if (output.label_filename().empty()) continue;
    io::InputFile file = io::InputFile::open_below(folder, output.label_filename());
    require(file.bytes() <= kMostLabelBytes, ErrorKind::over_budget, "{} has {} bytes, at most {} are read",
            file.name(), file.bytes(), kMostLabelBytes);
    std::string text(static_cast<std::size_t>(file.bytes()), '\0');
    file.read(std::as_writable_bytes(std::span(text)));
    labels[output.name()] = parse_labels(text);
  }
  return labels;
}

fs::path model_file(const fs::path& folder, const ModelSettings& settings) {
  const std::string& given = settings.config.default_model_filename();
  require(given.find('/') == std::string::npos && given != "..", ErrorKind::invalid_argument,
          "default_model_filename is '{}', expected the name of a file in the version's folder", given);
  if (!given.empty()) {
    require(fs::exists(folder / given), ErrorKind::not_found, "the version's folder {} has no file '{}'",
            folder.string(), given);
    return folder / given;
  }
  for (const char* name : {"model.tsr", "model.onnx"}) {
    if (fs::exists(folder / name)) return folder / name;
  }
  fail(ErrorKind::not_found, "the version's folder {} holds neither model.onnx nor model.tsr", folder.string());
}

}  // namespace tessera::serve
