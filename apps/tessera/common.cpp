#include "common.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <set>
#include <system_error>

#include "base/environment.h"
#include "base/error.h"
#include "base/text.h"
#include "io/file.h"
#include "io/output_file.h"
#include "io/package/weight_stream.h"
#include "ir/graph.h"
#include "option_values.h"
#include "passes/pipeline.h"
#include "report/values/picture_input.h"
#include "report/values/value_files.h"
#include "runtime/session/assumed_dims.h"
#include "runtime/session/random_inputs.h"
#include "text/text_input.h"

namespace tessera::apps {
namespace {

std::pair<std::string, std::string> split_assignment(const std::string& text, const char* option, const char* form) {
  const std::size_t equals = text.find('=');
  require(equals != std::string::npos && equals > 0 && equals + 1 < text.size(), ErrorKind::invalid_argument,
          "{} expects {}, got '{}'", option, form, text);
  return {text.substr(0, equals), text.substr(equals + 1)};
}

// The parts of A=1,B=2. A comma separates only if an "=" follows before the next comma, so that names may contain
// commas.
std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  std::string part;
  for (const std::string& piece : CLI::detail::split(text, ',')) {
    part += (part.empty() ? "" : ",") + piece;
    if (piece.find('=') == std::string::npos) continue;
    parts.push_back(std::exchange(part, ""));
  }
  if (!part.empty() || parts.empty()) parts.push_back(part);
  return parts;
}

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const passes::Pass& pass : passes::all_passes()) names.emplace_back(pass.name);
  return names;
}

report::TypesByName input_types(const Model& model) {
  report::TypesByName types;
  for (ir::ValueId id : model.graph().inputs())
    types.emplace(model.graph().value(id).name, model.graph().value(id).type);
  return types;
}

NamedValues read_values(const std::string& file, const Model& model) {
  constexpr std::int64_t max_json_bytes = std::int64_t{1} << 30;
  const report::TypesByName types = input_types(model);
  if (!file.ends_with(".json")) return report::read_values_npz(file, types);
  const std::vector<std::byte> bytes = io::read_file(file, max_json_bytes);
  try {
    return report::read_values_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, types);
  } catch (Error& error) {
    error.add_context(fmt::format("file {}", file));
    throw;
  }
}

bool is_npy(const std::string& file) {
  if (file.ends_with(".npy")) return true;
  io::InputFile opened = io::InputFile::open(file);
  std::array<std::byte, 6> begin{};
  return opened.bytes() >= static_cast<std::int64_t>(begin.size()) &&
         (opened.read(begin), std::memcmp(begin.data(), "\x93NUMPY", begin.size()) == 0);
}

Tensor read_picture(const std::string& name, const std::string& file, const Model& model, const ModelOptions& options) {
  const auto input = std::ranges::find(model.inputs(), name, &ValueDescription::name);
  require(input != model.inputs().end(), ErrorKind::invalid_argument,
          "the model has no input '{}' that '{}' could be for", name, file);
  report::PictureInput picture =
      report::read_picture_input(file, *input, report::parse_picture_scale(options.normalise));
  fmt::print(stderr, "input '{}': {} of {} (--normalise)\n", base::printable(base::shown(name)), base::printable(file),
             picture.description);
  return std::move(picture.tensor);
}

Tokenizer load_tokenizer(const ModelOptions& options) {
  if (!options.tokenizer.empty()) return Tokenizer::load(options.tokenizer);
  const std::filesystem::path beside = std::filesystem::path(options.model).parent_path() / "tokenizer.json";
  require(std::filesystem::exists(beside), ErrorKind::not_found,
          "--text needs the model's tokenizer, and there is no '{}': name it by --tokenizer", beside.string());
  return Tokenizer::load(beside);
}

int copy_of_standard_input() {
  const int memory = ::memfd_create("standard input", MFD_CLOEXEC);
  require(memory >= 0, ErrorKind::io, "no memory for the model from standard input: {}",
          std::generic_category().message(errno));
  std::vector<char> part(std::size_t{1} << 20);
  std::int64_t size = 0;
  while (const std::size_t got = std::fread(part.data(), 1, part.size(), stdin)) {
    for (std::size_t done = 0; done < got;) {
      const ::ssize_t written = ::write(memory, part.data() + done, got - done);
      require(written > 0, ErrorKind::io, "cannot keep the model from standard input: {}",
              std::generic_category().message(errno));
      done += static_cast<std::size_t>(written);
    }
    size += static_cast<std::int64_t>(got);
  }
  require(std::ferror(stdin) == 0, ErrorKind::io, "cannot read the model from standard input");
  require(size > 0, ErrorKind::invalid_model, "standard input, which '-' stands for, is empty");
  return memory;
}

}  // namespace

void add_input_options(CLI::App& verb, std::string& inputs, std::vector<std::string>& named_inputs,
                       ModelOptions& options) {
  verb.add_option("--inputs", inputs, "An .npz file with one array an input, by name; or a .json file");
  verb.add_option("--input", named_inputs,
                  "One input, as NAME=FILE.npy, or NAME=PICTURE: .png, .jpg and others, resized and laid out as the "
                  "input declares; may be repeated");
  verb.add_option("--normalise", options.normalise,
                  "Range of pictures: none (0 to 255), 0-1, -1-1 or imagenet (less mean, divided by deviation); "
                  "without it 0-1 for floats, none for integers")
      ->check(CLI::IsMember({"none", "0-1", "-1-1", "imagenet"}));
  verb.add_option("--text", options.texts,
                  "A text for a language model, which becomes input_ids, attention_mask and token_type_ids; repeated: "
                  "a batch");
  verb.add_option("--tokenizer", options.tokenizer,
                  "The tokenizer.json of --text; without it the one beside the model");
}

void add_model_options(CLI::App& verb, ModelOptions& options, const char* forms) {
  verb.add_option("MODEL", options.model, fmt::format("The model: {}, or - for standard input", forms))->required();
  verb.add_option("--dim", options.dims,
                  "Fix symbolic dimensions of the inputs, as NAME=N or NAME=N,NAME=N; may be repeated");
}

void add_run_options(CLI::App& verb, ModelOptions& options) {
  suggest(
      verb.add_option("--device", options.device,
                      "Where to run: cpu, cuda or cuda:N (an NVIDIA GPU), reference (slow, exact), null (plans only), "
                      "simulated:PROFILE (see docs/simulated.md), or the UUID of a device; `tessera info --devices` "
                      "lists those there are")
          ->capture_default_str(),
      {"cpu", "cuda", "reference", "null", "simulated:h100-sxm"});
  verb.add_option("--threads", options.threads, "Most threads to use; 0: all cores this process may use")
      ->capture_default_str()
      ->check(whole_number(0, base::kMostThreads));
  verb.add_option("--precision", options.precision,
                  "What layers with weights of f32 multiply in: f32, or bf16 (rounded, sums in f32). Without it: what "
                  "a .tsr was made with, f32 for .onnx")
      ->check(CLI::IsMember({"f32", "bf16"}));
  verb.add_option("--memory-limit", options.memory_limit_mib,
                  "Most memory the session may use, in MiB; 0: nine tenths of what this process may use")
      ->capture_default_str()
      ->check(whole_number(0, 1 << 30));
  verb.add_option("--device-memory-limit", options.device_memory_limit_mib,
                  "Most memory of a device with its own that the session may use, in MiB; 0: all of it")
      ->capture_default_str()
      ->check(whole_number(0, 1 << 30));
  verb.add_option("--growth-limit", options.growth_limit_mib,
                  "Most memory that the growing results of a loop may take, in MiB")
      ->capture_default_str()
      ->check(whole_number(0, 1 << 30));
  verb.add_option("--time-limit", options.time_limit_s,
                  "Most seconds a run may take (10, 0.5s, 250ms, 2m); 0: no limit")
      ->capture_default_str()
      ->transform(duration());
  verb.add_option(
          "--seed", options.seed,
          "Seed of made-up inputs (1 if not given) and of random operators, which draw other numbers in each run "
          "without one")
      ->check(whole_number(0, kMostSeed));
  suggest(verb.add_option("--without", options.without,
                          "Graph passes to leave out (fuse_attention,channels_last); may be repeated")
              ->delimiter(','),
          pass_names());
  verb.add_flag("--tune", options.tune,
                "Time the kernels that can do a step and take the fastest; what was timed before is found in the "
                "user's cache folder");
  verb.add_option("--tuning-file", options.tuning_file,
                  "Where --tune keeps what it timed, instead of the user's cache folder; made if absent");
}

std::map<std::string, std::int64_t> parse_dims(const std::vector<std::string>& dims) {
  std::map<std::string, std::int64_t> parsed;
  for (const std::string& given : dims) {
    for (const std::string& dim : split_list(given)) {
      const auto [name, number] = split_assignment(dim, "--dim", "NAME=N");
      std::int64_t value = -1;
      const auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), value);
      require(code == std::errc() && end == number.data() + number.size() && value >= 0, ErrorKind::invalid_argument,
              "--dim expects NAME=N with a whole number N from 0 to {}, got '{}'",
              std::numeric_limits<std::int64_t>::max(), dim);
      parsed[name] = value;
    }
  }
  return parsed;
}

std::string model_path(const std::string& given) {
  if (given != "-") return given;
  // Anonymous memory under a name that all readers of files can open. It is kept for the life of the process.
  static const int memory = copy_of_standard_input();
  return fmt::format("/proc/self/fd/{}", memory);
}

std::string model_title(const std::string& given) {
  return given == "-" ? "standard input" : given;
}

Model load_model(const ModelOptions& options) {
  const Model model = Model::load(model_path(options.model));
  return options.dims.empty() ? model : model.with_dims(parse_dims(options.dims));
}

SessionOptions session_options(const ModelOptions& options) {
  SessionOptions session;
  session.device = options.device;
  session.threads = options.threads;
  if (!options.precision.empty()) session.precision = options.precision == "bf16" ? DType::bf16 : DType::f32;
  session.memory_limit_bytes = options.memory_limit_mib << 20;
  session.device_memory_limit_bytes = options.device_memory_limit_mib << 20;
  session.max_growing_bytes = options.growth_limit_mib << 20;
  session.without_passes = options.without;
  require(options.tune || options.tuning_file.empty(), ErrorKind::invalid_argument,
          "--tuning-file is for --tune, which is not given");
  session.tune = options.tune;
  session.tuning_file = options.tuning_file;
  if (options.tune)
    session.tuning_progress = [](std::string_view op, double done) {
      show_progress(fmt::format("timing kernels of {}", op), done);
    };
  return session;
}

RunOptions run_options(const ModelOptions& options) {
  RunOptions run;
  run.seed = options.seed;
  run.time_limit_ns = static_cast<std::int64_t>(options.time_limit_s * 1e9);
  return run;
}

RunOptions repeatable_run_options(const ModelOptions& options) {
  RunOptions run = run_options(options);
  run.seed = options.seed.value_or(kUsualSeed);
  return run;
}

Model with_assumed_dims(const Model& model, bool json) {
  runtime::AssumedDims assumed = runtime::assume_dims(model);
  if (!assumed.note.empty())
    fmt::print(json ? stderr : stdout, "{}\n", base::printable(base::shortened(assumed.note, 1000)));
  return std::move(assumed.model);
}

void run_with_made_up_sizes(const Model& model, bool made_up, const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    const bool is_damaged = std::string_view(error.what()).find(io::kDamagedWeights) != std::string_view::npos;
    const bool shapes = !is_damaged && (error.kind() == ErrorKind::invalid_model || error.kind() == ErrorKind::failed);
    if (!made_up || !shapes) throw;
    const std::string note = runtime::assume_dims(model).note;
    if (note.empty()) throw;
    fail(ErrorKind::invalid_argument, "{}; sizes of the inputs are made up, {}", error.what(), note);
  }
}

bool has_no_inputs(const std::string& file, const std::vector<std::string>& named_files, const ModelOptions& options) {
  return file.empty() && named_files.empty() && options.texts.empty();
}

NamedValues read_inputs(const Model& model, const std::string& file, const std::vector<std::string>& named_files,
                        const ModelOptions& options) {
  if (has_no_inputs(file, named_files, options)) {
    const runtime::AssumedDims assumed = runtime::assume_dims(model);
    // A batch of 1 is the usual assumption and is not mentioned.
    if (!assumed.only_batches) fmt::print(stderr, "{}\n", base::printable(base::shortened(assumed.note, 1000)));
    return runtime::random_inputs(assumed.model, options.seed.value_or(kUsualSeed), options.memory_limit_mib << 20);
  }
  NamedValues inputs;
  if (!file.empty()) inputs = read_values(file, model);
  if (!options.texts.empty()) inputs.merge(text::text_inputs(model.inputs(), load_tokenizer(options), options.texts));
  for (const std::string& entry : named_files) {
    const auto [name, file] = split_assignment(entry, "--input", "NAME=FILE");
    inputs[name] = is_npy(file) ? report::read_tensor_npy(file, name, input_types(model))
                                : read_picture(name, file, model, options);
  }
  return inputs;
}

void show_progress(std::string_view what, double done) {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  if (terminal) fmt::print(stderr, "\r{:3.0f}% {:<60.60}", done * 100, what);
  if (terminal && done >= 1) fmt::print(stderr, "\r{:<66}\r", "");
}

void check_outputs(std::initializer_list<std::string> paths) {
  std::set<std::filesystem::path> seen;
  for (const std::string& path : paths) {
    if (path.empty() || path == "-") continue;
    io::check_output(path);
    require(seen.insert(std::filesystem::weakly_canonical(path)).second, ErrorKind::invalid_argument,
            "two different things would be written to '{}'", path);
  }
}

void check_form(const std::string& path, std::initializer_list<FileEnding> forms) {
  const std::string ending = std::filesystem::path(path).extension().string();
  if (path.empty() || std::ranges::find(forms, ending, &FileEnding::ending) != forms.end()) return;
  std::string listed;
  for (const FileEnding& form : forms)
    listed += fmt::format("{}{} for {}", listed.empty() ? "" : ", or in ", form.ending, form.what);
  fail(ErrorKind::invalid_argument, "cannot tell what to write to '{}': give it a name that ends in {}", path, listed);
}

void write_text(const std::string& path, const std::string& text) {
  if (path == "-") fmt::print("{}", text);
  else io::write_text(path, text);
}

}  // namespace tessera::apps
