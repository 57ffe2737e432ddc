#include "compress/deep_compression/deep_compression_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/numbers/units.h"
#include "base/text.h"
#include "compress/core/compression_costs.h"
#include "compress/core/compression_page.h"
#include "report/html/html.h"
#include "report/html/html_table.h"
#include "report/html/svg.h"
#include "report/values/json_text.h"

namespace tessera::compress {
namespace {

using namespace report;

struct Means {
  double dense = 0, compressed = 0, ratio = 0, least_ratio = HUGE_VAL;
};

Means means_of(const std::vector<CompressedFold>& folds) {
  Means means;
  const auto count = static_cast<double>(folds.size());
  for (const CompressedFold& fold : folds) {
    means.dense += fold.dense / count;
    means.compressed += fold.compressed / count;
    means.ratio += fold.ratio() / count;
    means.least_ratio = std::min(means.least_ratio, fold.ratio());
  }
  return means;
}

std::string name_of(const CompressedFold& fold) {
  return fold.fold > 0 ? std::to_string(fold.fold) : "-";
}

double bits_of(const CompressedLayer& layer) {
  constexpr double kBits = 8;
  return kBits * static_cast<double>(layer.coded_bytes) / static_cast<double>(std::max<std::int64_t>(1, layer.weights));
}

std::string values_of(const CompressedLayer& layer) {
  return layer.values > 0 ? std::to_string(layer.values) : "own";
}

std::string layers_text(const CompressedFold& fold) {
  std::string text = fmt::format("\n{:<24} {:>10} {:>10} {:>8} {:>7} {:>10} {:>10}\n", "weights of", "all", "nonzero",
                                 "", "values", "bits each", "sharing");
  for (const CompressedLayer& layer : fold.layers)
    text += fmt::format("{:<24} {:>10} {:>10} {:>7.2f}% {:>7} {:>10.2f} {:>10}\n", base::printable(layer.name),
                        layer.weights, layer.nonzero,
                        100 * static_cast<double>(layer.nonzero) / static_cast<double>(layer.weights), values_of(layer),
                        bits_of(layer), decibel_text(layer.sharing_snr_db));
  return text;
}

std::string folds_section(const std::vector<CompressedFold>& folds) {
  HtmlTable table{"Folds",
                  {{"fold", ColumnKind::text},
                   {"dense", ColumnKind::number},
                   {"pruned", ColumnKind::number},
                   {"shared", ColumnKind::number},
                   {"file's", ColumnKind::number},
                   {"bytes", ColumnKind::number},
                   {"ratio", ColumnKind::number},
                   {"file", ColumnKind::name}},
                  {}};
  const auto metric = [](double value) { return number_cell(fmt::format("{:.4f}", value), value); };
  for (const CompressedFold& fold : folds)
    table.rows.push_back({text_cell(name_of(fold)), metric(fold.dense), metric(fold.pruned), metric(fold.shared),
                          metric(fold.compressed),
                          number_cell(std::to_string(fold.file_bytes), static_cast<double>(fold.file_bytes)),
                          number_cell(fmt::format("{:.1f}", fold.ratio()), fold.ratio()), name_cell(fold.path)});
  return html_section("Stages",
                      fmt::format("{} after each stage, and of the file as it is read back; the ratio is that of the "
                                  "float32 parameters to the whole file.",
                                  folds[0].metric),
                      html_table(table));
}

std::string layers_section(const CompressedFold& fold) {
  HtmlTable table{"Layers",
                  {{"weights of", ColumnKind::name},
                   {"all", ColumnKind::number},
                   {"nonzero", ColumnKind::number},
                   {"share", ColumnKind::number},
                   {"values", ColumnKind::number},
                   {"bytes", ColumnKind::number},
                   {"bits each", ColumnKind::number},
                   {"SNR of sharing", ColumnKind::number}},
                  {}};
  const auto count = [](std::int64_t value) { return number_cell(std::to_string(value), static_cast<double>(value)); };
  for (const CompressedLayer& layer : fold.layers) {
    const double share = static_cast<double>(layer.nonzero) / static_cast<double>(layer.weights);
    table.rows.push_back(
        {name_cell(layer.name), count(layer.weights), count(layer.nonzero),
         number_cell(fmt::format("{:.2f}%", 100 * share), share),
         number_cell(values_of(layer), layer.values > 0 ? static_cast<double>(layer.values) : std::nan("")),
         count(layer.coded_bytes), number_cell(fmt::format("{:.2f}", bits_of(layer)), bits_of(layer)),
         number_cell(decibel_text(layer.sharing_snr_db),
                     layer.sharing_snr_db ? bounded_decibel(layer.sharing_snr_db) : std::nan(""))});
  }
  return html_section("Layers", "Of the last fold: what is left of its weights, and their bytes in the file.",
                      html_table(table), true);
}

std::string bytes_section(const CompressedFold& fold) {
  std::vector<SizePart> parts;
  std::int64_t known = 0;
  for (const CompressedLayer& layer : fold.layers) {
    parts.push_back({layer.name, "memory", layer.coded_bytes});
    known += layer.coded_bytes;
  }
  std::ranges::stable_sort(parts, std::ranges::greater{}, &SizePart::bytes);
  parts.push_back({"everything else", "overhead", std::max<std::int64_t>(0, fold.file_bytes - known)});
  return size_section({"the whole file", "overhead", fold.file_bytes}, parts,
                      "The file, and the coded weights of each layer in it.");
}

std::string bits_section(const CompressedFold& fold) {
  std::vector<LayerMark> marks;
  for (const CompressedLayer& layer : fold.layers)
    marks.push_back(
        {layer.name, bits_of(layer), layer.sharing_snr_db, layer.values == 0,
         fmt::format("{:.1f}% nonzero, {} values",
                     100 * static_cast<double>(layer.nonzero) / static_cast<double>(layer.weights), values_of(layer))});
  return error_by_bits_section(
      marks,
      "Bits in the file for each weight of the dense net, and the signal-to-noise ratio of the "
      "pruned weights when they come to share values, before these are trained.");
}

}  // namespace

std::string deep_compression_text(const std::vector<CompressedFold>& folds) {
  std::string text = fmt::format("{:<6} {:>9} {:>9} {:>9} {:>10} {:>8}  {}\n", "fold", "dense", "pruned", "file's",
                                 "bytes", "ratio", "file");
  for (const CompressedFold& fold : folds)
    text += fmt::format("{:<6} {:>9.4f} {:>9.4f} {:>9.4f} {:>10} {:>7.1f}x  {}\n", name_of(fold), fold.dense,
                        fold.pruned, fold.compressed, fold.file_bytes, fold.ratio(), base::printable(fold.path));
  text += layers_text(folds.back());
  const double before = folds.back().multiply_adds_dense, after = folds.back().multiply_adds;
  if (after < before)
    text += fmt::format("\nmultiply-adds for one sample: {:.4g} became {:.4g}, {:.1f} times fewer\n", before, after,
                        before / after);
  const Means means = means_of(folds);
  return text + fmt::format(
                    "\n{} of {}: dense {:.4f}, compressed {:.4f} ({:+.4f}); {:.1f} times smaller than the parameters "
                    "in float32{}\n",
                    folds.back().metric,
                    folds.size() > 1 ? fmt::format("{} folds, mean", folds.size()) : "the test data", means.dense,
                    means.compressed, means.compressed - means.dense, means.ratio,
                    folds.size() > 1 ? fmt::format(" (at least {:.1f})", means.least_ratio) : "");
}

std::string deep_compression_json(const std::vector<CompressedFold>& folds) {
  nlohmann::json list = nlohmann::json::array();
  for (const CompressedFold& fold : folds) {
    nlohmann::json layers = nlohmann::json::array();
    for (const CompressedLayer& layer : fold.layers)
      layers.push_back({{"name", layer.name},
                        {"weights", layer.weights},
                        {"nonzero", layer.nonzero},
                        {"values", layer.values},
                        {"coded_bytes", layer.coded_bytes},
                        {"sharing_snr_db", json_number(layer.sharing_snr_db)}});
    list.push_back({{"fold", fold.fold},
                    {"metric", fold.metric},
                    {"dense", fold.dense},
                    {"pruned", fold.pruned},
                    {"shared", fold.shared},
                    {"compressed", fold.compressed},
                    {"parameter_bytes", 4 * fold.parameters},
                    {"file_bytes", fold.file_bytes},
                    {"ratio", fold.ratio()},
                    {"multiply_adds_dense", fold.multiply_adds_dense},
                    {"multiply_adds", fold.multiply_adds},
                    {"path", fold.path},
                    {"costs", costs_json(fold.costs)},
                    {"layers", std::move(layers)}});
  }
  const Means means = means_of(folds);
  return json_text({{"folds", std::move(list)},
                    {"dense", means.dense},
                    {"compressed", means.compressed},
                    {"ratio", means.ratio},
                    {"least_ratio", means.least_ratio}},
                   2);
}

std::string deep_compression_html(const std::vector<CompressedFold>& folds, const std::string& recipe) {
  const std::string title = "Deep Compression by " + recipe;
  const CompressedFold& last = folds.back();
  const std::string body = fmt::format("<h1>{}</h1>\n", html_text(title)) + costs_facts(last.costs) +
                           folds_section(folds) + bits_section(last) + bytes_section(last) + layers_section(last);
  return html_page(title, body);
}

}  // namespace tessera::compress
