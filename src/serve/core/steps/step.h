// Steps: what the server does to a request before its network runs, or to the network's outputs afterwards.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "serve/core/models/image_memory.h"
#include "serve/core/models/servable.h"
#include "tessera/model.h"
#include "tessera/share.h"

namespace tessera::serve {

// The keys of the table [before] or [after] of a model's configuration. Functions throw Error(invalid_argument) for a
// value of another kind or beyond its range.
class StepSettings {
 public:
  // `where` names the table in messages.
  StepSettings(std::map<std::string, std::string> values, std::string where)
      : values_(std::move(values)), where_(std::move(where)) {}

  std::string text(const std::string& key, const std::string& otherwise = "");
  // One of the choices; the first is the usual one.
  std::string choice(const std::string& key, const std::vector<std::string>& choices);
  std::int64_t whole(const std::string& key, std::int64_t otherwise, std::int64_t least, std::int64_t most);
  double number(const std::string& key, double otherwise, double least, double most);
  bool boolean(const std::string& key, bool otherwise);
  // Throws for a key that nobody asked for.
  void check_all_read() const;

 private:
  std::map<std::string, std::string> values_;
  std::string where_;
  std::set<std::string> read_;
};

// The arguments from which a step is made.
struct StepSource {
  StepSettings settings;
  std::filesystem::path folder;  // of the model, where its files lie
  const Model& model;
  const ImageMemory& images;  // lives longer than the step
};

// Thread-safe.
class PipelineStep {
 public:
  virtual ~PipelineStep() = default;
  // Shapes have -1 where any size goes.
  virtual std::vector<TensorInfo> inputs() const = 0;
  virtual std::vector<TensorInfo> outputs() const = 0;
  // `values` has at least the inputs, by name. Returns the outputs, and for steps before a network also what steps
  // after it may want to know. What takes long ends early once `cancellation` is set. Throws Error or Failure for what
  // a client sent wrong.
  virtual NamedValues run(Job& job, const NamedValues& values, const Cancellation& cancellation) = 0;
};

// Texts to the numbers of their tokens: `text` BYTES [n] to what text::text_inputs fills. Settings: tokenizer
// ("tokenizer.json"), max_length.
std::unique_ptr<PipelineStep> make_text_step(StepSource source);
// A picture file to a network's input: `image` UINT8 [bytes]. Settings: those of PictureOptions. The size of the
// picture goes along as kPictureSize, I64 [height, width].
std::unique_ptr<PipelineStep> make_picture_step(StepSource source);
inline constexpr const char* kPictureSize = "tessera.picture_size";

// The largest elements of each row with their names: `label` BYTES and `score` FP32 [n, top]. Settings: labels (a file
// with a name a line), top (5), softmax (false), output (the network's first).
std::unique_ptr<PipelineStep> make_labels_step(StepSource source);
// One vector for each text: `embedding` FP32 [n, width], of the network's output [n, tokens, width]. Settings: pooling
// ("mean" over the tokens of the text, "first"), normalise (true: to length 1), output.
std::unique_ptr<PipelineStep> make_embedding_step(StepSource source);
// Greedy decoding of connectionist temporal classification (Graves et al., 2006): scores [n, positions, classes] to
// `text` BYTES and `confidence` FP32 [n], the mean score of the characters. Class 0 is the blank, the last one a space
// where there is one class more than characters. Settings: characters (a file with one per line; without it the model's
// property "character"), output.
std::unique_ptr<PipelineStep> make_ctc_step(StepSource source);
// Boxes of objects without those that overlap a better one of their class (non-maximum suppression): `box` FP32 [k, 4]
// as left, top, right, bottom in pixels of the picture, `label` BYTES and `score` FP32 [k], the best first. `before` is
// the table [before], whose picture the boxes are scaled to. docs/serving.md lists the settings.
std::unique_ptr<PipelineStep> make_detection_step(StepSource source, StepSettings before);

// The step that the setting `kind` names. Throws Error(invalid_argument) for unknown kinds and settings.
std::unique_ptr<PipelineStep> make_step_before(StepSource source);
std::unique_ptr<PipelineStep> make_step_after(StepSource source, const StepSettings& before);

// For makers of steps: the output that the setting `key` names, the model's first without it. Throws
// Error(invalid_argument) for one that the model has not, or that is not of `dtype`.
ValueDescription output_of(StepSource& source, const std::string& key, DType dtype);
// The lines of a file of the model's folder.
std::vector<std::string> lines_of(const StepSource& source, const std::string& file);
// Throws Failure(internal) with the shape for a tensor of another rank.
void require_rank(const Tensor& tensor, const std::string& name, std::int64_t rank);

}  // namespace tessera::serve
