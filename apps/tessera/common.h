// Parts that several verbs share: reading options, loading models, writing text files.
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

inline constexpr std::uint64_t kUsualSeed = 1;  // the seed if none is given
inline constexpr std::uint64_t kMostSeed = std::numeric_limits<std::uint64_t>::max();

// Options for which model is run, and how.
struct ModelOptions {
  std::string model;
  std::vector<std::string> dims;  // each NAME=N, or several separated by commas
  std::string device = "cpu";
  int threads = 0;
  std::string precision;  // "" for that of the file, which is f32 for .onnx
  std::int64_t memory_limit_mib = 0;
  std::int64_t device_memory_limit_mib = 0;
  std::int64_t growth_limit_mib = 1024;
  double time_limit_s = 0;
  std::optional<std::uint64_t> seed;  // if absent, random inputs have seed 1, and random operators draw fresh numbers
  std::vector<std::string> without;   // names of passes
  bool tune = false;
  std::string tuning_file;
  std::string normalise;           // of images, see report/values/picture_input.h
  std::vector<std::string> texts;  // inputs of a language model, see text/text_input.h
  std::string tokenizer;           // "" for tokenizer.json beside the model
};

// `forms` describes the files that the verb accepts.
void add_model_options(CLI::App& verb, ModelOptions& options, const char* forms = "an .onnx or .tsr file");
void add_run_options(CLI::App& verb, ModelOptions& options);  // --device --threads --precision --memory-limit
                                                              // --time-limit --seed --without --tune --tuning-file

void add_input_options(CLI::App& verb, std::string& inputs, std::vector<std::string>& named_inputs,
                       ModelOptions& options);  // --inputs --input --normalise --text --tokenizer

// Parses entries "NAME=N", or several of them separated by commas. Throws Error(invalid_argument).
std::map<std::string, std::int64_t> parse_dims(const std::vector<std::string>& dims);
// The model with its dimensions fixed as requested.
Model load_model(const ModelOptions& options);
// The path to read a MODEL from. "-" means standard input, which is copied to memory at the first call.
std::string model_path(const std::string& given);
// The name of a MODEL in results.
std::string model_title(const std::string& given);
SessionOptions session_options(const ModelOptions& options);
RunOptions run_options(const ModelOptions& options);
// Returns the options of run_options() for runs that are compared: random operators draw the same numbers in each.
RunOptions repeatable_run_options(const ModelOptions& options);
// The model with sizes for the dimensions that are not fixed (runtime/session/assumed_dims.h). Prints these sizes in
// one line, on stdout, or on stderr if `json` goes to stdout.
Model with_assumed_dims(const Model& model, bool json);
// Inputs from an .npz or .json file and from NAME=FILE entries; how an image was converted is printed in a line on
// stderr. If no input is given at all, all inputs are random numbers by the seed.
NamedValues read_inputs(const Model& model, const std::string& file, const std::vector<std::string>& named_files,
                        const ModelOptions& options);
// Returns whether no inputs are given; read_inputs returns random ones then.
bool has_no_inputs(const std::string& file, const std::vector<std::string>& named_files, const ModelOptions& options);
// Calls `run`. If `made_up` says that its inputs are random, and their assumed sizes do not fit the model, the error
// says how to choose sizes.
void run_with_made_up_sizes(const Model& model, bool made_up, const std::function<void()>& run);
// Shows progress on a terminal, in a line that is overwritten until `done` is 1; elsewhere prints nothing.
void show_progress(std::string_view what, double done);
// To be called before a verb begins its work. Throws Error(io) if one of the files that it will write cannot be
// written, and Error(invalid_argument) if two of them are the same. Empty paths are options that were not given.
void check_outputs(std::initializer_list<std::string> paths);
// The extension of a file's name, and the kind of its contents, such as {".html", "a page"}.
struct FileEnding {
  std::string_view ending, what;
};
inline constexpr FileEnding kOnnxForm{".onnx", "an ONNX model"}, kPageForm{".html", "a page"},
    kJsonForm{".json", "JSON"}, kArraysForm{".npz", "arrays"};
// Throws Error(invalid_argument), which lists the possible extensions, unless the path has one of these. To be called
// before a verb begins its work. An empty path is an option that was not given.
void check_form(const std::string& path, std::initializer_list<FileEnding> forms);
// Writes a whole file, or to standard output if the path is "-". Throws Error(io).
void write_text(const std::string& path, const std::string& text);

}  // namespace tessera::apps
