#include "obfuscation_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/numbers/units.h"
#include "io/onnx/mapped_file.h"
#include "io/package/container.h"
#include "report/values/json_text.h"
#include "tessera/obfuscation_measure.h"

namespace tessera::apps {
namespace {

std::string time_text(double seconds) {
  return base::format_duration_ns(std::llround(seconds * 1e9));
}

// To be asked before the model is loaded, which an obfuscated one is not without its symbols.
void require_no_package(const ModelOptions& model) {
  const std::shared_ptr<const io::MappedFile> file = io::MappedFile::map(io::InputFile::open(model_path(model.model)));
  require(
      !io::is_container(file->bytes()), ErrorKind::invalid_argument,
      "obfuscation begins with the .onnx model, and is done once: '{}' is a package, which is optimised and perhaps "
      "obfuscated already; name the model that it was made of",
      model.model);
}

}  // namespace

void add_obfuscation_options(CLI::App& verb, ObfuscationOptions& options) {
  verb.add_option("--obfuscate", options.degree,
                  "Write a file that does not say what the model computes: 1 renames operators and values, 2 also "
                  "scrambles weights and adds decoys, 3 masks all weights")
      ->check(CLI::Range(1, 3));
  verb.add_option(
          "--obfuscate-passes", options.passes,
          "Only these passes of obfuscation, of: " + fmt::format("{}", fmt::join(obfuscation_passes_of(3), ", ")))
      ->delimiter(',');
  verb.get_option("--seed")->description("Obfuscate by this seed: equal seeds give equal files; random if not given");
  verb.add_option(
      "--symbols", options.symbols,
      "The secret file of symbols that is written beside an obfuscated model, OUT.symbols if not given; for "
      "--find-watermark that of MODEL");
  verb.add_flag(
      "--measure", options.measures,
      "Write no file, but print what each degree of obfuscation costs, and how alike its graph is to the plain one");
  CLI::Option* const licence = verb.add_option(
      "--licence", options.licence,
      "Write the symbols, those of --obfuscate or of --symbols, into this file for one machine, where it takes their "
      "place");
  CLI::Option* const machine = verb.add_option("--machine", options.machine,
                                               "The machine of --licence: what --machine-id prints there, or 'this'")
                                   ->needs(licence);
  licence->needs(machine);
  verb.add_flag("--machine-id", options.shows_machine, "Print the identifier of this machine, and nothing else");
  verb.add_option("--emit-library", options.library_sources,
                  "Write the sources of an operator library for --symbols into this folder, and nothing else");
}

void write_obfuscated(const ObfuscationOptions& options, const ModelOptions& model, const std::string& output,
                      const ProtectOptions& protect, bool json) {
  require_no_package(model);
  ObfuscateOptions how{options.degree.value_or(2), model.seed, options.passes, options.symbols};
  if (how.symbols.empty()) how.symbols = std::filesystem::path(output).replace_extension(".symbols");
  const ObfuscateReport report =
      obfuscate_model(load_model(model), output, how, protect, {.session = session_options(model)});
  if (!options.licence.empty()) write_licence(options, how.symbols, json);
  if (json) {
    fmt::print("{}\n", report::json_text({{"file", output},
                                          {"bytes", report.file_bytes},
                                          {"symbols_file", how.symbols.string()},
                                          {"symbols", report.symbols},
                                          {"passes", report.passes},
                                          {"recipients", report.recipients},
                                          {"nodes_before", report.nodes_before},
                                          {"nodes_after", report.nodes_after},
                                          {"permuted_channels", report.permuted_channels},
                                          {"scaled_channels", report.scaled_channels},
                                          {"masked_weights", report.masked_weights},
                                          {"masked_bytes", report.masked_bytes},
                                          {"decoy_edges", report.decoy_edges},
                                          {"redundant_nodes", report.redundant_nodes}},
                                         2));
    return;
  }
  fmt::print("wrote {}: {}, {}\n", output, base::format_bytes(report.file_bytes),
             report.recipients.empty()
                 ? "obfuscated, not encrypted"
                 : fmt::format("obfuscated, encrypted for {}", fmt::join(report.recipients, ", ")));
  fmt::print("{} -> {} nodes by {} symbols; {} channels permuted, {} scaled; {} weights masked ({})\n",
             report.nodes_before, report.nodes_after, report.symbols, report.permuted_channels, report.scaled_channels,
             report.masked_weights, base::format_bytes(report.masked_bytes));
  if (report.symbols > 0)
    fmt::print(
        "wrote {}: keep it secret; the model runs with --symbols, or with the library that --emit-library makes "
        "of it\n",
        how.symbols.string());
}

void write_licence(const ObfuscationOptions& options, const std::string& symbols, bool quiet) {
  require(!symbols.empty(), ErrorKind::invalid_argument,
          "--licence needs the symbols of a model: name the file by --symbols, or obfuscate a MODEL");
  const std::string machine = options.machine == "this" ? machine_identifier() : options.machine;
  tessera::write_licence(symbols, options.licence, machine);
  if (!quiet) fmt::print("wrote {}: the symbols for machine {} alone\n", options.licence, machine);
}

void measure_degrees(const ObfuscationOptions& options, const ModelOptions& model, bool json) {
  require_no_package(model);
  const std::vector<ObfuscationFigures> figures =
      measure_obfuscation(load_model(model), model.seed, {.session = session_options(model)}, 20, show_progress);
  if (json) {
    nlohmann::ordered_json degrees = nlohmann::ordered_json::array();
    for (const ObfuscationFigures& each : figures)
      degrees.push_back({{"degree", each.degree},
                         {"file_bytes", each.file_bytes},
                         {"symbols_bytes", each.symbols_bytes},
                         {"load_seconds", each.load_seconds},
                         {"run_seconds", each.run_seconds},
                         {"memory_bytes", each.memory_bytes},
                         {"similar_operators", each.similarity.operators},
                         {"similar_patterns", each.similarity.patterns},
                         {"similar_subgraphs", each.similarity.subgraphs},
                         {"similar_subgraphs_by_chance", each.similarity.subgraphs_by_chance}});
    fmt::print("{}\n", report::json_text({{"degrees", std::move(degrees)}}, 2));
    return;
  }
  fmt::print("{:6} {:>11} {:>10} {:>10} {:>11} {:>10} {:>9} {:>10} {:>10}\n", "degree", "file", "load", "a run",
             "memory", "operators", "patterns", "subgraphs", "(chance)");
  for (const ObfuscationFigures& each : figures)
    fmt::print("{:<6} {:>11} {:>10} {:>10} {:>11} {:>9.0f}% {:>8.0f}% {:>9.0f}% {:>9.0f}%\n", each.degree,
               base::format_bytes(each.file_bytes), time_text(each.load_seconds), time_text(each.run_seconds),
               base::format_bytes(each.memory_bytes), 100 * each.similarity.operators, 100 * each.similarity.patterns,
               100 * each.similarity.subgraphs, 100 * each.similarity.subgraphs_by_chance);
  fmt::print("degree 0 is the package of 'tessera optimize', to which the others are compared\n");
}

void write_library_sources(const ObfuscationOptions& options, std::optional<std::uint64_t> seed) {
  require(!options.symbols.empty(), ErrorKind::invalid_argument,
          "--emit-library needs the symbols of a model: name the file by --symbols");
  emit_operator_library(options.symbols, options.library_sources, seed);
  fmt::print(
      "wrote {0}/operators.c and {0}/CMakeLists.txt; build them with CMake, and ship the library apart from the "
      "model\n",
      options.library_sources);
}

}  // namespace tessera::apps
