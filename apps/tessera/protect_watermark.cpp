#include "protect_watermark.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/package.h"
#include "report/values/json_text.h"

namespace tessera::apps {

void add_watermark_options(CLI::App& verb, WatermarkVerb& options) {
  CLI::Option* const mark = verb.add_option(
      "--watermark", options.identity,
      "Mark the weights with this identity, of the customer who gets the file for example; without keys to encrypt "
      "for, OUT may be an .onnx file");
  CLI::Option* const find =
      verb.add_option("--find-watermark", options.wanted,
                      "Say whether MODEL has the mark of this identity; may be repeated. Exit code 1 if it has none")
          ->excludes(mark);
  CLI::Option* const key = verb.add_option("--watermark-key", options.key,
                                           "The secret of the marks: a symmetric key file such as model.key");
  mark->needs(key);
  find->needs(key);
}

Model add_watermark(const WatermarkVerb& options, const Model& model, bool quiet) {
  WatermarkReport report;
  Model marked = tessera::add_watermark(model, options.identity, options.key, &report);
  if (!quiet)
    fmt::print(stderr, "watermark '{}': {} weights changed by {:.2f}%, score {:.1f}\n", options.identity,
               report.weights, 100 * report.strength, report.score);
  return marked;
}

void find_watermarks(const WatermarkVerb& options, const Model& model, bool json) {
  const std::vector<WatermarkFinding> findings = tessera::find_watermarks(model, options.wanted, options.key);
  nlohmann::json list = nlohmann::json::array();
  for (const WatermarkFinding& each : findings) {
    list.push_back(
        {{"identity", each.identity}, {"found", each.is_found}, {"score", each.score}, {"threshold", each.threshold}});
    if (!json)
      fmt::print("watermark '{}': {}, score {:.1f}; unmarked models have less than {:.1f}\n", each.identity,
                 each.is_found ? "found" : "not found", each.score, each.threshold);
  }
  if (json) fmt::print("{}\n", report::json_text({{"watermarks", list}}, 2));
  if (std::ranges::any_of(findings, &WatermarkFinding::is_found)) return;
  require(!model.graph().metadata.contains(std::string(io::kObfuscatedMark)), ErrorKind::invalid_argument,
          "MODEL is obfuscated, which hides watermarks: that none was found says nothing");
  throw CLI::RuntimeError(1);
}

}  // namespace tessera::apps
