// tessera protect: writes models that only the holders of a key can read.
#include "tessera/protect.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/numbers/units.h"
#include "common.h"
#include "key_options.h"
#include "obfuscation_options.h"
#include "protect_watermark.h"
#include "report/values/json_text.h"
#include "secret_shares.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

struct ProtectVerb {
  ModelOptions model;
  std::string output, new_keys, publisher;
  std::vector<std::string> key_files, key_commands, recipients, password_files;
  bool asks_for_password = false, rewraps = false, json = false;
  KeySource current;
  WatermarkVerb watermark;
  ObfuscationOptions obfuscation;
  SharesVerb shares;
};

ProtectOptions protect_options(const ProtectVerb& options) {
  ProtectOptions result;
  for (const auto* files : {&options.key_files, &options.recipients}) {
    for (const std::string& file : *files) result.keys.push_back({.file = file});
  }
  for (const std::string& command : options.key_commands) result.keys.push_back({.command = command});
  for (const std::string& file : options.password_files) result.keys.push_back({.password_file = file});
  if (options.asks_for_password) result.keys.push_back({.asks_for_password = true});
  result.publisher = options.publisher;
  return result;
}

void print(const ProtectReport& report, const ProtectVerb& options) {
  if (options.json) {
    fmt::print("{}\n", report::json_text({{"file", options.output},
                                          {"bytes", report.file_bytes},
                                          {"recipients", report.recipients},
                                          {"signed", report.is_signed}},
                                         2));
    return;
  }
  std::string recipients;
  for (const std::string& each : report.recipients) recipients += (recipients.empty() ? "" : ", ") + each;
  fmt::print("wrote {}: {}, for {}{}\n", options.output, base::format_bytes(report.file_bytes), recipients,
             report.is_signed ? ", signed" : "");
}

void make_keys(const ProtectVerb& options) {
  require(options.model.model.empty() && options.output.empty(), ErrorKind::invalid_argument,
          "--new-key writes keys and protects no model; protect it by a second call");
  write_new_keys(options.new_keys);
  fmt::print(
      "wrote {0}/model.key (symmetric), {0}/recipient.key and .pub, {0}/publisher.key and .pub; keep the .key files "
      "secret\n",
      options.new_keys);
}

bool has_no_keys(const ProtectVerb& options) {
  return options.key_files.empty() && options.key_commands.empty() && options.recipients.empty() &&
         options.password_files.empty() && !options.asks_for_password && options.publisher.empty();
}

void run_shares(const ProtectVerb& options) {
  const std::string& model = options.model.model;
  require(!model.empty(), ErrorKind::invalid_argument, "there is no MODEL to split into shares");
  if (!options.shares.other.empty()) return combine_shares(model, options.shares.other, options.output);
  require(options.output.empty() && has_no_keys(options), ErrorKind::invalid_argument,
          "--secret-shares writes its two files and nothing else; leave -o and keys out");
  if (model.ends_with(".npz")) return share_arrays(model, options.shares);
  if (options.current.is_set()) use_key(options.current);
  share_model(load_model(options.model), options.shares, options.json);
}

void run_protect(const ProtectVerb& options) {
  if (options.obfuscation.shows_machine) return fmt::print("{}\n", machine_identifier());
  if (!options.new_keys.empty()) return make_keys(options);
  if (!options.shares.files.empty() || !options.shares.other.empty()) return run_shares(options);
  if (!options.watermark.wanted.empty()) {
    require(!options.model.model.empty(), ErrorKind::invalid_argument, "--find-watermark needs a MODEL to look into");
    if (options.current.is_set()) use_key(options.current);
    if (!options.obfuscation.symbols.empty()) use_symbols(options.obfuscation.symbols);
    return find_watermarks(options.watermark, load_model(options.model), options.json);
  }
  if (!options.obfuscation.library_sources.empty())
    return write_library_sources(options.obfuscation, options.model.seed);
  if (options.obfuscation.measures) {
    require(!options.model.model.empty() && options.output.empty(), ErrorKind::invalid_argument,
            "--measure needs a MODEL, and writes no file");
    return measure_degrees(options.obfuscation, options.model, options.json);
  }
  if (!options.obfuscation.licence.empty() && options.model.model.empty())
    return write_licence(options.obfuscation, options.obfuscation.symbols, options.json);
  require(
      options.obfuscation.licence.empty() || options.obfuscation.is_asked_for(), ErrorKind::invalid_argument,
      "--licence holds the symbols of an obfuscated model; obfuscate MODEL by --obfuscate, or leave it out and name "
      "the --symbols");
  require(!options.model.model.empty() && !options.output.empty(), ErrorKind::invalid_argument,
          "'protect' needs a MODEL and -o OUT.tsr, or --new-key DIR; see 'tessera protect --help'");
  check_outputs({options.output});
  if (options.obfuscation.is_asked_for()) {
    require(!options.rewraps, ErrorKind::invalid_argument, "--rewrap writes a model for other keys as it is");
    require(
        options.watermark.identity.empty(), ErrorKind::invalid_argument,
        "--watermark and --obfuscate exclude each other: a watermark is not found in scrambled weights. Each "
        "obfuscated copy has symbols with an id of its own, which tells copies apart; or mark the model to an .onnx "
        "file, and obfuscate that by --obfuscate 1, which leaves the weights as they are");
    return write_obfuscated(options.obfuscation, options.model, options.output, protect_options(options), options.json);
  }
  const std::string model = model_path(options.model.model);
  if (options.rewraps) {
    const KeySource current = options.current.is_set() ? options.current : key_source_of_environment();
    require(current.is_set(), ErrorKind::invalid_argument,
            "--rewrap needs the key that opens the file: name it by --current-key-file, --current-key-command or "
            "--current-password");
    return print(rewrap_model(model, options.output, current, protect_options(options)), options);
  }
  if (!options.watermark.identity.empty()) {
    const Model marked = add_watermark(options.watermark, load_model(options.model), options.json);
    if (has_no_keys(options) && options.output.ends_with(".onnx")) return marked.save(options.output);
    return print(
        protect_model(marked, options.output, protect_options(options), {.session = session_options(options.model)}),
        options);
  }
  if (is_protected(model) || options.model.dims.empty())
    return print(
        protect_model(model, options.output, protect_options(options), {.session = session_options(options.model)}),
        options);
  print(protect_model(load_model(options.model), options.output, protect_options(options),
                      {.session = session_options(options.model)}),
        options);
}

constexpr const char* kFooter =
    "A model that is not a package is optimised for this machine first, as 'tessera optimize' does; a package is "
    "encrypted as it is.\n"
    "Keys are read from files and commands only: a command line can be seen by other users.\n\nExamples:\n"
    "  tessera protect --new-key keys\n"
    "  tessera protect model.onnx -o model.tsr --key-file keys/model.key --sign keys/publisher.key\n"
    "  tessera run model.tsr --key-file keys/model.key\n"
    "  tessera check model.tsr --require-signature keys/publisher.pub\n"
    "  tessera protect model.onnx -o marked.onnx --watermark customer-7 --watermark-key keys/model.key\n"
    "  tessera protect found.onnx --find-watermark customer-7 --watermark-key keys/model.key\n"
    "  tessera protect model.tsr -o rotated.tsr --rewrap --current-key-file keys/model.key --recipient "
    "new/recipient.pub\n"
    "  tessera protect model.onnx -o hidden.tsr --obfuscate 2 --symbols hidden.symbols\n"
    "  tessera run hidden.tsr --symbols hidden.symbols\n"
    "  tessera protect --emit-library operators --symbols hidden.symbols\n"
    "  tessera protect --symbols hidden.symbols --licence hidden.licence --machine this";

}  // namespace

void add_protect(CLI::App& app) {
  auto options = std::make_shared<ProtectVerb>();
  CLI::App* verb =
      app.add_subcommand("protect", "Encrypt a model, so that only the holders of a key can read it, or obfuscate it");
  verb->add_option("MODEL", options->model.model, "The model: an .onnx or .tsr file, or - for standard input");
  verb->add_option("-o,--output", options->output, "Where to write: OUT.tsr");
  verb->add_option("--dim", options->model.dims,
                   "Fix symbolic dimensions of the inputs, as NAME=N or NAME=N,NAME=N; may be repeated");
  verb->add_option("--key-file", options->key_files,
                   "A key that opens the file: a symmetric key file; may be repeated");
  verb->add_option("--key-command", options->key_commands,
                   "A shell command that prints such a key, of a key management service for example; may be repeated");
  verb->add_option("--recipient", options->recipients,
                   "Whose secret key opens the file: a recipient.pub; may be repeated");
  verb->add_option("--password-file", options->password_files, "A file with a password that opens the file");
  verb->add_flag("--password", options->asks_for_password, "Ask for a password that opens the file");
  verb->add_option("--sign", options->publisher, "Sign the contents with this publisher.key");
  verb->add_option("--new-key", options->new_keys, "Write new keys into this folder, and nothing else");
  verb->add_flag("--rewrap", options->rewraps,
                 "MODEL is protected: write it for other keys, without encrypting its contents again");
  add_key_source(*verb, "current-", "--rewrap, --find-watermark, --secret-shares: the key that opens MODEL",
                 options->current);
  verb->add_flag("--json", options->json, "Print the size, the recipients and whether it is signed as JSON");
  add_watermark_options(*verb, options->watermark);
  add_shares_options(*verb, options->shares);
  add_run_options(*verb, options->model);
  add_obfuscation_options(*verb, options->obfuscation);
  verb->footer(kFooter);
  verb->callback([options] { run_protect(*options); });
}

}  // namespace tessera::apps
