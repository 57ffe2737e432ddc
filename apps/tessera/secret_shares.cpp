#include "secret_shares.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/numbers/units.h"
#include "base/text.h"
#include "common.h"
#include "io/npz.h"
#include "key_options.h"
#include "option_values.h"
#include "report/values/json_text.h"
#include "tessera/secret_shared.h"

namespace tessera::apps {

void add_shares_options(CLI::App& verb, SharesVerb& options) {
  verb.add_option(
          "--secret-shares", options.files,
          "Split MODEL, or the arrays of an .npz file, into two files for 'tessera run --secret-shared'; either "
          "alone is random")
      ->expected(2)
      ->type_name("A B");
  verb.add_option("--runs", options.runs, "--secret-shares: how many runs the files have random numbers for")
      ->capture_default_str()
      ->check(whole_number(1, 1 << 20));
  verb.add_option("--combine-shares", options.other,
                  "Add this .npz file of shares to MODEL, another one, and write the sum to OUT.npz");
}

void share_arrays(const std::string& arrays, const SharesVerb& options) {
  check_outputs({options.files[0], options.files[1]});
  std::map<std::string, Tensor> first, second;
  for (const auto& [name, tensor] : io::read_npz(arrays)) {
    try {
      const TensorShares shares = share_tensor(tensor);
      first[name] = shares.first;
      second[name] = shares.second;
    } catch (Error& error) {
      error.add_context("array " + base::printable(name));
      throw;
    }
  }
  io::write_npz(options.files[0], first);
  io::write_npz(options.files[1], second);
}

void share_model(const Model& model, const SharesVerb& options, bool json) {
  check_outputs({options.files[0], options.files[1]});
  const ShareReport report = tessera::share_model(model, options.files[0], options.files[1], options.runs);
  if (json) {
    fmt::print("{}\n", report::json_text({{"files", options.files},
                                          {"bytes", {report.first_bytes, report.second_bytes}},
                                          {"input", report.input},
                                          {"output", report.output},
                                          {"runs", report.runs}},
                                         2));
    return;
  }
  fmt::print("wrote {} ({}) and {} ({}) for {} runs; give each to one party alone\n", options.files[0],
             base::format_bytes(report.first_bytes), options.files[1], base::format_bytes(report.second_bytes),
             report.runs);
}

void combine_shares(const std::string& first, const std::string& second, const std::string& output) {
  check_form(output, {kArraysForm});
  check_outputs({output});
  const std::map<std::string, Tensor> others = io::read_npz(second);
  std::map<std::string, Tensor> sums;
  for (const auto& [name, share] : io::read_npz(first)) {
    const auto other = others.find(name);
    require(other != others.end(), ErrorKind::invalid_argument, "'{}' has no array '{}', of which '{}' has a share",
            second, name, first);
    sums[name] = tessera::combine_shares(share, other->second);
  }
  io::write_npz(output, sums);
}

void add_shared_run_options(CLI::App& verb, SharedRunVerb& options) {
  CLI::Option* const peer = verb.add_option(
      "--secret-shared", options.peer,
      "MODEL and --inputs are shares ('tessera protect --secret-shares'): compute with the process that has the other "
      "ones; the first listens at HOST:PORT, and the second connects there");
  verb.add_option("--peer-timeout", options.timeout_s, "Seconds to wait for the peer, and for each message of it")
      ->capture_default_str()
      ->check(CLI::Range(0.001, 86400.0))
      ->needs(peer);
}

void run_on_shares(const SharedRunVerb& options, const std::string& file, const std::string& inputs,
                   const std::string& outputs, bool json) {
  require(!inputs.empty() && !outputs.empty(), ErrorKind::invalid_argument,
          "--secret-shared needs --inputs SHARE.npz and --outputs SHARE.npz");
  forbid_core_dumps();
  check_form(outputs, {kArraysForm});
  check_outputs({outputs});
  const ShareReport shares = describe_shares(file);
  const std::map<std::string, Tensor> arrays = io::read_npz(inputs);
  const auto input = arrays.find(shares.input);
  require(input != arrays.end(), ErrorKind::invalid_argument, "'{}' has no array '{}', which is the model's input",
          inputs, shares.input);
  SharedRunReport report;
  const Tensor output = run_secret_shared(file, options.peer, input->second, {options.timeout_s}, &report);
  io::write_npz(outputs, {{report.output, output}});
  if (json) {
    fmt::print("{}\n", report::json_text({{"output", report.output},
                                          {"rounds", report.rounds},
                                          {"bytes_sent", report.bytes_sent},
                                          {"runs_left", report.runs_left},
                                          {"seconds", report.total_s}},
                                         2));
    return;
  }
  fmt::print("wrote a share of {} to {}: {} messages, {} sent and received, {:.3f} s; {} runs are left\n",
             base::printable(report.output), outputs, report.rounds, base::format_bytes(report.bytes_sent),
             report.total_s, report.runs_left);
}

}  // namespace tessera::apps
