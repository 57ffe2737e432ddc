#include "runtime/session/tuning_file.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "io/file.h"
#include "io/output_file.h"
#include "tessera/version.h"

namespace tessera::runtime {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostFileBytes = std::int64_t{64} << 20;

// The hardware and version for which measured times hold.
Json origin_of(const backends::DeviceProperties& device) {
  return {{"device", device.product}, {"instruction_set", device.instruction_set}, {"tessera", TESSERA_VERSION}};
}

plan::TuningTable read_choices(const Json& choices) {
  plan::TuningTable table;
  for (const auto& [key, choice] : choices.items()) {
    plan::MeasuredKernels& measured = table[key];
    measured.fastest = choice.at("kernel").get<std::string>();
    measured.seconds = choice.at("seconds").get<std::map<std::string, double, std::less<>>>();
  }
  return table;
}

}  // namespace

std::filesystem::path tuning_path(const backends::DeviceProperties& device) {
  const std::optional<std::filesystem::path> folder = io::cache_folder();
  require(folder.has_value(), ErrorKind::not_found,
          "neither XDG_CACHE_HOME nor HOME says where measured choices of kernels are kept");
  std::string name = fmt::format("tuning-{}-{}-{}.json", device.product, device.instruction_set, TESSERA_VERSION);
  for (char& character : name) {
    if (std::isalnum(static_cast<unsigned char>(character)) == 0 &&
        std::string_view("-+.").find(character) == std::string_view::npos)
      character = '_';
  }
  return *folder / name;
}

plan::TuningTable load_tuning(const std::filesystem::path& path, const backends::DeviceProperties& device) {
  std::error_code unknown;  // where no one can look there is no table
  if (!std::filesystem::exists(path, unknown)) return {};
  const std::vector<std::byte> bytes = io::read_file(path, kMostFileBytes);
  try {
    const Json file = Json::parse(reinterpret_cast<const char*>(bytes.data()),
                                  reinterpret_cast<const char*>(bytes.data()) + bytes.size());
    return file.at("measured_on") == origin_of(device) ? read_choices(file.at("choices")) : plan::TuningTable();
  } catch (const Json::exception& error) {
    fail(ErrorKind::invalid_argument, "'{}' is no table of measured kernels ({}); delete it to measure anew",
         path.string(), error.what());
  }
}

void save_tuning(const plan::TuningTable& table, const std::filesystem::path& path,
                 const backends::DeviceProperties& device) {
  plan::TuningTable all = load_tuning(path, device);
  for (const auto& [key, measured] : table) all.insert_or_assign(key, measured);
  Json choices = Json::object();
  for (const auto& [key, measured] : all) choices[key] = {{"kernel", measured.fastest}, {"seconds", measured.seconds}};
  io::replace_text(path, Json{{"measured_on", origin_of(device)}, {"choices", std::move(choices)}}.dump(1) + "\n");
}

StoredTuner::StoredTuner(const backends::DeviceProperties& device, std::filesystem::path path,
                         plan::TuningProgress progress)
    : device_(device),
      asked_for_(!path.empty()),
      path_(std::move(path)),
      saved_(load()),
      tuner_(saved_, std::move(progress)) {}

plan::TuningTable StoredTuner::load() {
  try {
    if (!asked_for_) path_ = tuning_path(device_);
    plan::TuningTable table = load_tuning(path_, device_);
    // Where nothing can be written, say so before measuring.
    std::error_code unknown;
    if (!std::filesystem::exists(path_, unknown)) save_tuning(table, path_, device_);
    return table;
  } catch (const Error& error) {
    if (asked_for_) throw;
    do_without_file(error);
    return {};
  }
}

void StoredTuner::do_without_file(const Error& error) {
  kept_ = false;
  warn("the measured choices of kernels hold for this session and are not kept: {}", error.message());
}

void StoredTuner::save() {
  std::lock_guard lock(mutex_);
  if (!kept_) return;
  plan::TuningTable now = tuner_.table();
  if (now == saved_) return;
  try {
    save_tuning(now, path_, device_);
  } catch (const Error& error) {
    if (asked_for_) throw;
    do_without_file(error);
  }
  saved_ = std::move(now);
}

}  // namespace tessera::runtime
