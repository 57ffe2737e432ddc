#include "cost/profile.h"

#include <algorithm>

#include "base/edit_distance.h"
#include "base/error.h"
#include "cost/profile_texts.h"
#include "io/file.h"

namespace tessera::cost {
namespace {

// Names of devices without a variant, and the usual variant of each.
constexpr std::pair<std::string_view, std::string_view> kUsualVariants[] = {
    {"a100", "a100-80-sxm"},       {"a100-40", "a100-40-sxm"}, {"a100-80", "a100-80-sxm"}, {"a100-sxm", "a100-80-sxm"},
    {"a100-pcie", "a100-80-pcie"}, {"h100", "h100-sxm"},       {"v100", "v100-16"},
};

// The name most similar to a misspelt one, or "" if none is similar.
std::string_view similar_name(std::string_view misspelt) {
  constexpr std::size_t most_bytes = 50, most_mistakes = 2;
  if (misspelt.size() > most_bytes) return "";
  std::string_view best;
  std::size_t least = most_mistakes + 1;
  const auto compare = [&](std::string_view name) {
    const std::size_t distance = base::edit_distance(misspelt, name);
    if (distance < least) best = name, least = distance;
  };
  for (const DeviceProfile& profile : built_in_profiles()) compare(profile.name);
  for (const auto& [name, variant] : kUsualVariants) compare(name);
  return best;
}

}  // namespace

double Rates::of(Precision precision) const {
  return const_cast<Rates*>(this)->of(precision);
}

double& Rates::of(Precision precision) {
  switch (precision) {
    case Precision::f32:
      return f32;
    case Precision::tf32:
      return tf32;
    case Precision::f16:
      return f16;
    case Precision::bf16:
      return bf16;
    case Precision::int8:
      return int8;
  }
  return f32;
}

double DeviceProfile::peak(Precision precision, bool product) const {
  if (product && has_matrix_units(precision)) return matrix_rates.of(precision);
  // Only products can be computed in tf32; 8-bit integers outside of products are computed as float32.
  if (precision == Precision::tf32) return product ? 0 : vector_rates.f32;
  if (!product && vector_rates.of(precision) == 0) return vector_rates.f32;
  return vector_rates.of(precision);
}

DeviceProfile DeviceProfile::with_one_thread() const {
  DeviceProfile profile = *this;
  if (!one_thread) return profile;
  profile.title += ", one thread";
  profile.vector_rates = one_thread->vector_rates;
  profile.bandwidth = one_thread->bandwidth;
  profile.caches = one_thread->caches;
  if (!one_thread->correction.empty()) profile.correction = one_thread->correction;
  profile.multiprocessors = 1;
  return profile;
}

DeviceProfile DeviceProfile::with_threads(int threads, bool& scaled) const {
  scaled = false;
  if (kind != DeviceKind::cpu || threads <= 0 || threads >= multiprocessors) return *this;
  if (threads == 1 && one_thread) return with_one_thread();
  scaled = true;
  DeviceProfile profile = *this;
  const double share = static_cast<double>(threads) / multiprocessors;
  for (Rates* rates : {&profile.vector_rates, &profile.matrix_rates}) {
    for (const Precision precision : kAllPrecisions) rates->of(precision) *= share;
  }
  for (Cache& cache : profile.caches) cache.bytes_per_second *= share;
  profile.title += fmt::format(", {} of {} cores", threads, multiprocessors);
  profile.multiprocessors = threads;
  return profile;
}

std::span<const DeviceProfile> built_in_profiles() {
  static const std::vector<DeviceProfile> profiles = [] {
    std::vector<DeviceProfile> list;
    for (const char* text : profile_texts()) list.push_back(parse_profile(text, "built-in profile"));
    return list;
  }();
  return profiles;
}

const DeviceProfile* find_built_in_profile(std::string_view name) {
  const auto profiles = built_in_profiles();
  const auto found = std::ranges::find(profiles, name, &DeviceProfile::name);
  return found == profiles.end() ? nullptr : &*found;
}

std::string_view usual_variant(std::string_view name) {
  const auto found = std::ranges::find(kUsualVariants, name, &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(kUsualVariants) ? std::string_view() : found->second;
}

DeviceProfile load_profile(const std::string& name_or_path) {
  if (const std::string_view variant = usual_variant(name_or_path); !variant.empty())
    return *find_built_in_profile(variant);
  if (const DeviceProfile* profile = find_built_in_profile(name_or_path)) return *profile;
  if (!name_or_path.ends_with(".toml")) {
    std::string names;
    for (const DeviceProfile& profile : built_in_profiles()) names += (names.empty() ? "" : ", ") + profile.name;
    const std::string_view similar = similar_name(name_or_path);
    fail(ErrorKind::invalid_argument, "there is no device '{}'; there are {}, and any .toml file{}", name_or_path,
         names, similar.empty() ? "" : fmt::format("; did you mean '{}'?", similar));
  }
  constexpr std::int64_t max_bytes = 4 << 20;
  const std::vector<std::byte> bytes = io::read_file(name_or_path, max_bytes);
  return parse_profile({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, name_or_path);
}

}  // namespace tessera::cost
