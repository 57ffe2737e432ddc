// Reads and writes profiles as TOML text.
#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/error.h"
#include "cost/profile.h"
#include "io/toml_parser.h"

namespace tessera::cost {
namespace {

constexpr double kTera = 1e12, kGiga = 1e9;

// A table of the file with its known keys: a misspelt key is an error, not a number that is silently zero.
class Reader {
 public:
  Reader(const toml::table& table, std::string where, std::initializer_list<std::string_view> known)
      : table_(table), where_(std::move(where)) {
    for (const auto& [key, value] : table) {
      const bool is_known = std::find(known.begin(), known.end(), std::string_view(key)) != known.end();
      require(is_known, ErrorKind::invalid_argument, "{}: unknown key '{}'; expected {}", where_, key.str(),
              fmt::join(known, ", "));
    }
  }

  double number(std::string_view key, double otherwise) const {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return otherwise;
    const std::optional<double> value = node->value<double>();
    require(value && std::isfinite(*value) && *value >= 0, ErrorKind::invalid_argument,
            "{}: '{}' must be a number, not negative", where_, key);
    return *value;
  }
  double positive(std::string_view key) const {
    const double value = number(key, 0);
    require(value > 0, ErrorKind::invalid_argument, "{}: '{}' is missing or zero", where_, key);
    return value;
  }
  std::string text(std::string_view key, const char* otherwise = nullptr) const {
    const toml::node* node = table_.get(key);
    require(node != nullptr || otherwise != nullptr, ErrorKind::invalid_argument, "{}: '{}' is missing", where_, key);
    if (node == nullptr) return otherwise;
    const std::optional<std::string> value = node->value<std::string>();
    require(value.has_value(), ErrorKind::invalid_argument, "{}: '{}' must be text", where_, key);
    return *value;
  }
  const toml::table* table(std::string_view key) const {
    const toml::node* node = table_.get(key);
    require(node == nullptr || node->is_table(), ErrorKind::invalid_argument, "{}: '{}' must be a table", where_, key);
    return node != nullptr ? node->as_table() : nullptr;
  }
  // Calls read(element) for the elements of a list, if there is one.
  template <typename Element, typename Read>
  void each(std::string_view key, const char* kind, Read read) const {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return;
    require(node->is_array(), ErrorKind::invalid_argument, "{}: '{}' must be a list", where_, key);
    for (const toml::node& element : *node->as_array()) {
      const auto* typed = element.as<Element>();
      require(typed != nullptr, ErrorKind::invalid_argument, "{}: '{}' must be a list of {}", where_, key, kind);
      read(*typed);
    }
  }
  // The numbers of a list within a list: "tiles = [[128, 64]]".
  template <std::size_t count>
  std::array<double, count> numbers(const toml::array& list, std::string_view key) const {
    std::array<double, count> values{};
    require(list.size() == count, ErrorKind::invalid_argument, "{}: '{}' must hold lists of {} numbers", where_, key,
            count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::optional<double> value = list[i].value<double>();
      require(value && std::isfinite(*value), ErrorKind::invalid_argument, "{}: '{}' must hold lists of {} numbers",
              where_, key, count);
      values[i] = *value;
    }
    return values;
  }
  const std::string& where() const { return where_; }

 private:
  const toml::table& table_;
  std::string where_;
};

Rates read_rates(const Reader& parent, std::string_view key) {
  const toml::table* table = parent.table(key);
  if (table == nullptr) return {};
  const Reader reader(*table, fmt::format("{} [{}]", parent.where(), key), {"f32", "tf32", "f16", "bf16", "int8"});
  Rates rates;
  for (const Precision precision : kAllPrecisions) rates.of(precision) = reader.number(name_of(precision), 0) * kTera;
  return rates;
}

std::vector<Cache> read_caches(const Reader& parent) {
  std::vector<Cache> caches;
  parent.each<toml::table>("cache", "tables", [&](const toml::table& table) {
    const Reader cache(table, parent.where() + " [[cache]]", {"name", "size_kb", "bandwidth_gb_s"});
    caches.push_back({cache.text("name"), static_cast<std::int64_t>(cache.positive("size_kb") * 1024),
                      cache.number("bandwidth_gb_s", 0) * kGiga});
  });
  return caches;
}

void read_units(const Reader& parent, DeviceProfile& profile) {
  const toml::table* table = parent.table("units");
  if (table == nullptr) return;
  const Reader units(*table, parent.where() + " [units]",
                     {"multiprocessors", "tiles", "warp_tiles", "misaligned_share"});
  profile.multiprocessors = static_cast<int>(units.positive("multiprocessors"));
  profile.misaligned_share = units.number("misaligned_share", 1);
  require(profile.misaligned_share > 0 && profile.misaligned_share <= 1, ErrorKind::invalid_argument,
          "{}: 'misaligned_share' must be in (0, 1]", units.where());
  units.each<toml::array>("tiles", "lists", [&](const toml::array& list) {
    const auto [m, n] = units.numbers<2>(list, "tiles");
    require(m >= 1 && n >= 1, ErrorKind::invalid_argument, "{}: 'tiles' must be positive", units.where());
    profile.tiles.push_back({static_cast<std::int64_t>(m), static_cast<std::int64_t>(n)});
  });
  units.each<toml::array>("warp_tiles", "lists", [&](const toml::array& list) {
    const auto [m, n, k] = units.numbers<3>(list, "warp_tiles");
    profile.warp_tiles.push_back(
        {static_cast<std::int64_t>(m), static_cast<std::int64_t>(n), static_cast<std::int64_t>(k)});
  });
}

void read_block_limits(const Reader& parent, DeviceProfile& profile) {
  const toml::table* table = parent.table("blocks");
  if (table == nullptr) return;
  const Reader blocks(*table, parent.where() + " [blocks]",
                      {"capability", "shared_memory_kb", "shared_memory_per_multiprocessor_kb",
                       "registers_per_multiprocessor", "threads", "more_formats"});
  BlockLimits& limits = profile.block_limits;
  blocks.each<std::int64_t>("capability", "whole numbers", [&, first = true](const auto& number) mutable {
    (first ? limits.capability_major : limits.capability_minor) =
        static_cast<int>(std::clamp<std::int64_t>(number.get(), 0, 1000));
    first = false;
  });
  const auto count = [&](std::string_view key) { return static_cast<int>(std::min(blocks.positive(key), 1e9)); };
  limits.shared_memory_per_block = std::int64_t{1024} * count("shared_memory_kb");
  limits.shared_memory_per_multiprocessor = std::int64_t{1024} * count("shared_memory_per_multiprocessor_kb");
  limits.registers_per_multiprocessor = count("registers_per_multiprocessor");
  limits.threads_per_block = count("threads");
  blocks.each<std::string>("more_formats", "texts", [&](const toml::value<std::string>& format) {
    bool* const has = format.get() == "f64"    ? &limits.multiplies_f64
                      : format.get() == "f8"   ? &limits.multiplies_f8
                      : format.get() == "int4" ? &limits.multiplies_int4
                                               : nullptr;
    require(has != nullptr, ErrorKind::invalid_argument, "{}: 'more_formats' has '{}', expected f64, f8 or int4",
            blocks.where(), format.get());
    *has = true;
  });
}

Correction read_correction(const Reader& root) {
  std::vector<Sample> samples;
  root.each<toml::table>("sample", "tables", [&](const toml::table& table) {
    const Reader reader(table, root.where() + " [[sample]]", {"kernel", "shape", "factor", "learned"});
    Sample sample{reader.text("kernel"), {}, reader.positive("factor"), table["learned"].value_or(false)};
    const toml::array* shape = table.get_as<toml::array>("shape");
    // A file of an earlier version may hold fewer sizes.
    require(shape != nullptr && shape->size() <= kShapeFeatures, ErrorKind::invalid_argument,
            "{}: 'shape' must be a list of up to {} numbers", reader.where(), kShapeFeatures);
    for (std::size_t i = 0; i < shape->size(); ++i) {
      const std::optional<double> size = (*shape)[i].value<double>();
      require(size && std::isfinite(*size), ErrorKind::invalid_argument, "{}: 'shape' must be a list of numbers",
              reader.where());
      sample.shape[i] = *size;
    }
    samples.push_back(std::move(sample));
  });
  return Correction(std::move(samples));
}

DeviceProfile read_profile(const toml::table& root_table, const std::string& where) {
  const Reader root(root_table, where,
                    {"name", "title", "kind", "sources", "note", "vector", "matrix", "matrix_sparse", "memory", "cache",
                     "link", "launch", "units", "blocks", "power", "one_thread", "sample"});
  DeviceProfile profile;
  profile.name = root.text("name");
  profile.title = root.text("title", profile.name.c_str());
  const std::string kind = root.text("kind", "gpu");
  require(kind == "gpu" || kind == "cpu", ErrorKind::invalid_argument, "{}: 'kind' is '{}', expected gpu or cpu", where,
          kind);
  profile.kind = kind == "cpu" ? DeviceKind::cpu : DeviceKind::gpu;
  profile.note = root.text("note", "");
  root.each<std::string>("sources", "texts",
                         [&](const toml::value<std::string>& source) { profile.sources.push_back(source.get()); });
  profile.vector_rates = read_rates(root, "vector");
  profile.matrix_rates = read_rates(root, "matrix");
  profile.sparse_matrix_rates = read_rates(root, "matrix_sparse");
  require(profile.vector_rates.f32 > 0, ErrorKind::invalid_argument, "{} [vector]: 'f32' is missing or zero", where);
  const toml::table* memory_table = root.table("memory");
  require(memory_table != nullptr, ErrorKind::invalid_argument, "{}: [memory] is missing", where);
  const Reader memory(*memory_table, where + " [memory]", {"size_gb", "bandwidth_gb_s"});
  profile.memory_bytes = static_cast<std::int64_t>(memory.positive("size_gb") * kGiga);
  profile.bandwidth = memory.positive("bandwidth_gb_s") * kGiga;
  profile.caches = read_caches(root);
  root.each<toml::table>("link", "tables", [&](const toml::table& table) {
    const Reader link(table, where + " [[link]]", {"name", "bandwidth_gb_s"});
    profile.links.push_back({link.text("name"), link.positive("bandwidth_gb_s") * kGiga});
  });
  if (const toml::table* launch = root.table("launch"))
    profile.overhead_seconds = Reader(*launch, where + " [launch]", {"overhead_us"}).number("overhead_us", 0) * 1e-6;
  read_units(root, profile);
  read_block_limits(root, profile);
  if (const toml::table* power = root.table("power"))
    profile.watts = Reader(*power, where + " [power]", {"watts"}).number("watts", 0);
  if (const toml::table* table = root.table("one_thread")) {
    const Reader one(*table, where + " [one_thread]", {"vector", "bandwidth_gb_s", "cache", "sample"});
    profile.one_thread = DeviceProfile::OneThread{read_rates(one, "vector"), one.positive("bandwidth_gb_s") * kGiga,
                                                  read_caches(one), read_correction(one)};
  }
  profile.correction = read_correction(root);
  return profile;
}

toml::table rates_table(const Rates& rates) {
  toml::table table;
  for (const Precision precision : kAllPrecisions) {
    if (rates.of(precision) > 0) table.insert(name_of(precision), rates.of(precision) / kTera);
  }
  return table;
}

toml::array cache_array(const std::vector<Cache>& caches) {
  toml::array array;
  for (const Cache& cache : caches) {
    toml::table table{{"name", cache.name}, {"size_kb", static_cast<double>(cache.bytes) / 1024}};
    if (cache.bytes_per_second > 0) table.insert("bandwidth_gb_s", cache.bytes_per_second / kGiga);
    array.push_back(std::move(table));
  }
  return array;
}

toml::table units_table(const DeviceProfile& profile) {
  toml::table units{{"multiprocessors", profile.multiprocessors}, {"misaligned_share", profile.misaligned_share}};
  toml::array tiles, warp_tiles;
  for (const Tile& tile : profile.tiles) tiles.push_back(toml::array{tile.m, tile.n});
  for (const WarpTile& tile : profile.warp_tiles) warp_tiles.push_back(toml::array{tile.m, tile.n, tile.k});
  if (!tiles.empty()) units.insert("tiles", std::move(tiles));
  if (!warp_tiles.empty()) units.insert("warp_tiles", std::move(warp_tiles));
  return units;
}

toml::table block_limits_table(const BlockLimits& limits) {
  toml::array formats;
  if (limits.multiplies_f64) formats.push_back("f64");
  if (limits.multiplies_f8) formats.push_back("f8");
  if (limits.multiplies_int4) formats.push_back("int4");
  return toml::table{{"capability", toml::array{limits.capability_major, limits.capability_minor}},
                     {"shared_memory_kb", limits.shared_memory_per_block / 1024},
                     {"shared_memory_per_multiprocessor_kb", limits.shared_memory_per_multiprocessor / 1024},
                     {"registers_per_multiprocessor", limits.registers_per_multiprocessor},
                     {"threads", limits.threads_per_block},
                     {"more_formats", std::move(formats)}};
}

void insert_samples(toml::table& table, const Correction& correction) {
  toml::array samples;
  for (const Sample& sample : correction.samples()) {
    toml::array shape;
    for (const double feature : sample.shape) shape.push_back(feature);
    toml::table entry{{"kernel", sample.kernel}, {"shape", std::move(shape)}, {"factor", sample.factor}};
    if (sample.learned) entry.insert("learned", true);
    samples.push_back(std::move(entry));
  }
  if (!samples.empty()) table.insert("sample", std::move(samples));
}

}  // namespace

DeviceProfile parse_profile(std::string_view text, const std::string& where) {
  return read_profile(io::parse_toml(text, where), where);
}

std::string profile_text(const DeviceProfile& profile) {
  toml::table root{
      {"name", profile.name}, {"title", profile.title}, {"kind", profile.kind == DeviceKind::cpu ? "cpu" : "gpu"}};
  toml::array sources;
  for (const std::string& source : profile.sources) sources.push_back(source);
  if (!sources.empty()) root.insert("sources", std::move(sources));
  if (!profile.note.empty()) root.insert("note", profile.note);
  root.insert("vector", rates_table(profile.vector_rates));
  if (toml::table rates = rates_table(profile.matrix_rates); !rates.empty()) root.insert("matrix", std::move(rates));
  if (toml::table rates = rates_table(profile.sparse_matrix_rates); !rates.empty())
    root.insert("matrix_sparse", std::move(rates));
  root.insert("memory", toml::table{{"size_gb", static_cast<double>(profile.memory_bytes) / kGiga},
                                    {"bandwidth_gb_s", profile.bandwidth / kGiga}});
  if (!profile.caches.empty()) root.insert("cache", cache_array(profile.caches));
  toml::array links;
  for (const Link& link : profile.links)
    links.push_back(toml::table{{"name", link.name}, {"bandwidth_gb_s", link.bytes_per_second / kGiga}});
  if (!links.empty()) root.insert("link", std::move(links));
  root.insert("launch", toml::table{{"overhead_us", profile.overhead_seconds * 1e6}});
  if (profile.multiprocessors > 0) root.insert("units", units_table(profile));
  if (profile.block_limits.threads_per_block > 0) root.insert("blocks", block_limits_table(profile.block_limits));
  if (profile.watts > 0) root.insert("power", toml::table{{"watts", profile.watts}});
  if (profile.one_thread) {
    toml::table one{{"vector", rates_table(profile.one_thread->vector_rates)},
                    {"bandwidth_gb_s", profile.one_thread->bandwidth / kGiga},
                    {"cache", cache_array(profile.one_thread->caches)}};
    insert_samples(one, profile.one_thread->correction);
    root.insert("one_thread", std::move(one));
  }
  insert_samples(root, profile.correction);
  std::ostringstream text;
  text << root << '\n';
  return text.str();
}

}  // namespace tessera::cost
