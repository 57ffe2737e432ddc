// tessera check: runs ONNX conformance cases.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/environment.h"
#include "base/error.h"
#include "common.h"
#include "conformance/conformance.h"
#include "option_values.h"
#include "report/values/json_text.h"
#include "signals.h"
#include "tessera/optimise.h"
#include "tessera/protect.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

using conformance::CaseOutcome;
using conformance::CaseResult;

struct CheckOptions {
  std::vector<std::string> paths;
  conformance::CheckOptions check;
  std::string publisher;  // a key file; "": signatures are not asked for
  bool json = false;
};

struct Tally {
  int passed = 0, failed = 0, unsupported = 0, random = 0;
  nlohmann::json failures = nlohmann::json::array(), refusals = nlohmann::json::array();
};

void count(const CaseResult& result, bool json, Tally& tally) {
  if (result.outcome == CaseOutcome::passed) {
    ++tally.passed;
    tally.random += result.random_values ? 1 : 0;
    return;
  }
  const bool failed = result.outcome == CaseOutcome::failed;
  ++(failed ? tally.failed : tally.unsupported);
  (failed ? tally.failures : tally.refusals).push_back({{"name", result.name}, {"reason", result.reason}});
  if (!json) fmt::print("{} {}: {}\n", failed ? "FAILED     " : "unsupported", result.name, result.reason);
}

// Returns what was found to be right.
std::string_view check_package(const std::string& path, const CheckOptions& options) {
  if (!options.publisher.empty()) check_signature(path, options.publisher);
  const bool is_closed = is_protected(path) && default_model_key() == nullptr;
  if (is_closed && !options.publisher.empty()) return "the publisher's signature is right";
  verify_package(path);
  if (!options.publisher.empty()) return "the publisher's signature is right, and all contents are authentic";
  return is_protected(path) ? "all contents are authentic" : "all checksums agree";
}

void run_check(const CheckOptions& options) {
  const GracefulStop stop;  // takes effect between two cases
  Tally tally;
  for (const std::string& path : options.paths) {
    if (stop.requested()) break;
    if (std::filesystem::is_regular_file(path) && is_package(path)) {
      const std::string_view agrees = check_package(path, options);
      ++tally.passed;
      if (!options.json) fmt::print("{}: {}\n", path, agrees);
      continue;
    }
    require(options.publisher.empty(), ErrorKind::invalid_argument,
            "'{}' is no package, and only packages can be signed", path);
    for (const std::filesystem::path& test : conformance::find_cases(path)) {
      if (stop.requested()) break;
      count(conformance::run_case(test, options.check), options.json, tally);
    }
  }
  if (options.json) {
    fmt::print("{}\n", report::json_text({{"passed", tally.passed},
                                          {"failed", tally.failed},
                                          {"unsupported", tally.unsupported},
                                          {"random_values", tally.random},
                                          {"interrupted", stop.requested()},
                                          {"failures", tally.failures},
                                          {"refusals", tally.refusals}},
                                         2));
  } else {
    fmt::print("{} passed, {} failed, {} unsupported{}\n", tally.passed, tally.failed, tally.unsupported,
               stop.requested() ? ", then interrupted" : "");
    if (tally.random > 0)
      fmt::print("{} of those passed draw random numbers, which ONNX does not fix: element types and shapes agree\n",
                 tally.random);
  }
  if (tally.failed > 0) throw CLI::RuntimeError(1);
}

}  // namespace

void add_check(CLI::App& app) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* verb = app.add_subcommand("check",
                                      "Run ONNX test cases (model.onnx with test_data_set_*) and compare the outputs; "
                                      "or check the checksums of .tsr files");
  verb->add_option("PATH", options->paths, "Case folders, or folders that hold them at any depth, or .tsr files")
      ->required();
  verb->add_option("--device", options->check.device, "Where to run")->capture_default_str();
  verb->add_option("--threads", options->check.threads, "Most threads to use; 0: all")
      ->capture_default_str()
      ->check(whole_number(0, base::kMostThreads));
  verb->add_flag("--round-trip", options->check.round_trip, "Write each model and read it back before running it");
  verb->add_option("--require-signature", options->publisher,
                   "Fail unless the holder of the secret half of this publisher.pub signed each .tsr file");
  verb->add_flag("--json", options->json, "Print passed, failed, unsupported, failures and refusals as JSON");
  verb->footer(
      "A protected .tsr is checked whole with its key, and with --require-signature and no key its signature alone.\n"
      "Tolerances are the suite's: relative 1e-3, absolute 1e-7, unless a case's data.json says otherwise; types and "
      "shapes must\n"
      "agree exactly. Exit code 0 without failures (unsupported cases do not count as failures), else 1.\n\nExample:\n"
      "  tessera check .venv/lib/python3.11/site-packages/onnx/backend/test/data/node");
  verb->callback([options] { run_check(*options); });
}

}  // namespace tessera::apps
