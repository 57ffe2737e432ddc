// What several verbs share: reading options, loading models, writing text files.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/session.h"

namespace tessera::apps {

inline constexpr std::uint64_t kUsualSeed = 1;  // where none is given
inline constexpr std::uint64_t kMostSeed = std::numeric_limits<std::uint64_t>::max();

// The options that say which model is run how.
struct ModelOptions {
  std::string model;
  std::vector<std::string> dims;  // NAME=N, or several with commas between
  std::string device = "cpu";
  int threads = 0;
  std::string precision;  // "": as the file says, f32 for .onnx
  std::int64_t memory_limit_mib = 0;
  std::int64_t growth_limit_mib = 1024;
  double time_limit_s = 0;
  std::optional<std::uint64_t> seed;  // nothing: inputs are made up from seed 1, random operators draw fresh numbers
  std::vector<std::string> without;   // names of passes
  bool tune = false;
  std::string tuning_file;
  std::string normalise;           // of pictures, see report/values/picture_input.h
  std::vector<std::string> texts;  // inputs of a language model, see text/text_input.h
  std::string tokenizer;           // "": tokenizer.json beside the model
};

// `forms`: of the files that the verb takes.
void add_model_options(CLI::App& verb, ModelOptions& options, const char* forms = "an .onnx or .tsr file");
void add_run_options(CLI::App& verb, ModelOptions& options);  // --device --threads --precision --memory-limit
                                                              // --time-limit --seed --without --tune --tuning-file

void add_input_options(CLI::App& verb, std::string& inputs, std::vector<std::string>& named_inputs,
                       ModelOptions& options);  // --inputs --input --normalise --text --tokenizer

// "NAME=N" each, or several with commas between; throws Error(invalid_argument).
std::map<std::string, std::int64_t> parse_dims(const std::vector<std::string>& dims);
// The model with its dimensions fixed as asked.
Model load_model(const ModelOptions& options);
// Returns the path to read a MODEL from: standard input, for which "-" stands, is copied to memory at the first call.
std::string model_path(const std::string& given);
// Returns the name of a MODEL in results.
std::string model_title(const std::string& given);
SessionOptions session_options(const ModelOptions& options);
RunOptions run_options(const ModelOptions& options);
// The same for runs that are compared: random operators draw the same numbers in each.
RunOptions repeatable_run_options(const ModelOptions& options);
// The model with sizes for the dimensions that nobody fixed (runtime/session/assumed_dims.h), which the first line
// says: on stdout, or on stderr where `json` goes to stdout.
Model with_assumed_dims(const Model& model, bool json);
// Inputs from an .npz or .json file and NAME=FILE entries, of which a line on standard error says what was made of a
// picture; what the model has and nobody gave is made up from the seed, if nothing at all is given.
NamedValues read_inputs(const Model& model, const std::string& file, const std::vector<std::string>& named_files,
                        const ModelOptions& options);
// Returns whether nobody gave inputs, so that read_inputs makes them up.
bool has_no_inputs(const std::string& file, const std::vector<std::string>& named_files, const ModelOptions& options);
// Calls `run` with inputs that read_inputs made up, if `made_up`: where their sizes, which nobody chose, do not fit the
// model, the error says how to choose them.
void run_with_made_up_sizes(const Model& model, bool made_up, const std::function<void()>& run);
// On a terminal a line that is written over until all (1) is done; elsewhere nothing.
void show_progress(std::string_view what, double done);
// For the begin of a verb: throws Error(io) when one of the files that it will write cannot be written, and
// Error(invalid_argument) when two are the same. Empty paths are options that were not given.
void check_outputs(std::initializer_list<std::string> paths);
// The end of a file's name, and what it says about what is written to it, such as {".html", "a page"}.
struct FileEnding {
  std::string_view ending, what;
};
inline constexpr FileEnding kOnnxForm{".onnx", "an ONNX model"}, kPageForm{".html", "a page"},
    kJsonForm{".json", "JSON"}, kArraysForm{".npz", "arrays"};
// Throws Error(invalid_argument), which lists all that is possible, unless the path ends in one of these ways. Verbs
// call it before any work. An empty path is an option that was not given.
void check_form(const std::string& path, std::initializer_list<FileEnding> forms);
// A whole file or, for the path "-", standard output. Throws Error(io).
void write_text(const std::string& path, const std::string& text);

}  // namespace tessera::apps
