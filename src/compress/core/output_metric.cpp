#include "compress/core/output_metric.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "compress/core/class_axis.h"
#include "compress/core/compression_costs.h"
#include "compress/core/label_kind.h"
#include "compress/core/reference_outputs.h"
#include "io/npz.h"
#include "train/evaluation/metrics.h"

namespace tessera::compress {
namespace {

constexpr auto kInvalid = ErrorKind::invalid_argument;
constexpr std::string_view kCommand = "command:";
constexpr std::array<std::string_view, 3> kBesideReference{"agreement", "cosine", "snr"};
// The metrics of trainings that take numbers as labels; all others count classes.
constexpr std::array<std::string_view, 4> kOfNumbers{"r2", "mae", "mse", "rmse"};

std::string_view without_argument(std::string_view name) {
  return name.substr(0, name.find(':'));
}

bool is_of_trainings(const std::string& name) {
  const std::vector<std::string> names = train::metric_names();
  return std::ranges::find(names, without_argument(name)) != names.end();
}

bool is_command(const std::string& name) {
  return name.starts_with(kCommand) || name.find('/') != std::string::npos;
}

const Tensor& needed_scores(const Model& model, const NamedValues& outputs, const std::string& metric) {
  const Tensor* scores = scores_of(model, outputs);
  require(scores != nullptr, kInvalid, "no output holds scores (f32), which the metric {} needs", metric);
  return *scores;
}

// The first integer output, which may hold classes, or null.
const Tensor* classes_of(const Model& model, const NamedValues& outputs) {
  constexpr std::array kTypes{DType::i64, DType::i32, DType::u8, DType::boolean};
  for (const ValueDescription& output : model.outputs()) {
    const Value& value = outputs.at(output.name);
    if (value.is_tensor() && std::ranges::find(kTypes, value.tensor().dtype()) != kTypes.end()) return &value.tensor();
  }
  return nullptr;
}

// Counts the positions, and those at which a and b have their largest element along the axis at the same index.
void count_agreement(const Tensor& a, const Tensor& b, std::size_t axis, std::int64_t& same, std::int64_t& all) {
  std::int64_t outer = 1, inner = 1;
  const std::int64_t classes = a.shape()[axis];
  for (std::size_t i = 0; i < a.shape().size(); ++i)
    if (i != axis) (i < axis ? outer : inner) *= a.shape()[i];
  if (classes == 0) return;
  const auto largest = [&](const float* from) {
    std::int64_t best = 0;
    for (std::int64_t c = 1; c < classes; ++c)
      if (from[c * inner] > from[best * inner]) best = c;
    return best;
  };
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < inner; ++i, ++all) {
      const std::int64_t at = o * classes * inner + i;
      if (largest(a.data<float>() + at) == largest(b.data<float>() + at)) ++same;
    }
  }
}

void count_equal(const Tensor& a, const Tensor& b, std::int64_t& same, std::int64_t& all) {
  const auto bytes = static_cast<std::size_t>(bits_of(a.dtype()) / 8);
  const auto *x = static_cast<const std::byte*>(a.raw()), *y = static_cast<const std::byte*>(b.raw());
  for (std::int64_t i = 0; i < a.elements(); ++i, ++all, x += bytes, y += bytes)
    if (std::memcmp(x, y, bytes) == 0) ++same;
}

// The metric that is chosen if none is named.
std::string fitting_metric(const LabelKind& labels, bool can_agree, bool has_scores) {
  if (labels.classes) return "accuracy";
  if (!labels.any) return can_agree ? "agreement" : "cosine";
  if (labels.against_numbers.empty() && is_of_trainings("r2")) return "r2";
  const std::string name = has_scores || !can_agree ? "cosine" : "agreement";  // cosine needs float outputs
  warn("the labels of the data are passed over, and the metric is {}: they are no classes, as {}", name,
       labels.against);
  return name;
}

// The axis of the scores along which the classes lie, if the graph tells it.
std::optional<std::size_t> class_axis_of(const Model& model) {
  for (const ir::ValueId output : model.graph().outputs()) {
    const ir::ValueType& type = model.graph().value(output).type;
    if (type.is_tensor() && type.dtype == DType::f32) return class_axis(model.graph(), output);
  }
  return std::nullopt;
}

Tensor joined(const std::vector<Tensor>& parts) {
  Shape shape = parts[0].shape();
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const Shape& other = parts[i].shape();
    const bool fits =
        !shape.empty() && other.size() == shape.size() && std::equal(other.begin() + 1, other.end(), shape.begin() + 1);
    require(fits, ErrorKind::invalid_argument, "outputs of shapes {} and {} do not fit in one array for the metric",
            to_string(shape), to_string(other));
    shape[0] += other[0];
  }
  Tensor all(parts[0].dtype(), shape);
  auto* to = static_cast<std::byte*>(all.mutable_raw());
  for (const Tensor& part : parts) {
    std::memcpy(to, part.raw(), static_cast<std::size_t>(part.bytes()));
    to += part.bytes();
  }
  return all;
}

// A file that is removed when the object is destroyed.
class ScratchFile {
 public:
  ScratchFile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tessera-metric-XXXXXX").string();
    require(mkdtemp(pattern.data()) != nullptr, ErrorKind::io, "cannot make a temporary folder: {}", strerror(errno));
    folder_ = pattern;
  }
  ~ScratchFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  std::string path() const { return (folder_ / "outputs.npz").string(); }

 private:
  std::filesystem::path folder_;
};

double printed_number(const std::string& command, const std::string& path) {
  FILE* pipe = popen((command + " '" + path + "'").c_str(), "r");
  require(pipe != nullptr, ErrorKind::failed, "cannot run '{}': {}", command, strerror(errno));
  std::string text;
  std::array<char, 4096> block{};
  while (text.size() < (1 << 16)) {
    const std::size_t got = std::fread(block.data(), 1, block.size(), pipe);
    if (got == 0) break;
    text.append(block.data(), got);
  }
  const int status = pclose(pipe);
  require(WIFEXITED(status) && WEXITSTATUS(status) == 0, ErrorKind::failed, "the metric '{}' failed with status {}",
          command, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool only = end != text.c_str() && std::string_view(end).find_first_not_of(" \t\r\n") == std::string_view::npos;
  require(only && std::isfinite(value), ErrorKind::failed, "the metric '{}' printed '{}', expected one number", command,
          text);
  return value;
}

}  // namespace

OutputMetric::OutputMetric(std::string name, const Model& reference, const CalibrationData& data,
                           const SessionOptions& session)
    : name_(std::move(name)), reference_(reference), data_(data), session_(session) {
  check_metric_name(name_);
  if (is_command(name_) || name_ == "cosine" || name_ == "snr") return;
  const LabelKind labels = kind_of_labels(reference_, data_, session_);
  class_axis_ = labels.class_axis ? labels.class_axis : class_axis_of(reference_);
  const NamedValues outputs = Session(reference_, session_).run(first_sample(reference_, data_), kSameNumbers);
  const Tensor* scores = scores_of(reference_, outputs);
  const bool has_axis =
      scores != nullptr && class_axis_ && *class_axis_ < scores->shape().size() && scores->shape()[*class_axis_] > 1;
  const bool can_agree = has_axis || (scores == nullptr && classes_of(reference_, outputs) != nullptr);
  if (name_.empty()) name_ = fitting_metric(labels, can_agree, scores != nullptr);
  require(name_ != "agreement" || can_agree, kInvalid,
          "the metric agreement compares the largest of several scores, but the outputs have no axis of classes; take "
          "cosine, snr or a command");
  if (!is_of_trainings(name_)) return;
  require(labels.any, kInvalid,
          "the metric {} needs labels: an array 'labels' in the .npz file, or a folder of pictures for each class",
          name_);
  const bool is_of_numbers = std::ranges::find(kOfNumbers, name_) != kOfNumbers.end();
  require(!is_of_numbers || labels.against_numbers.empty(), kInvalid,
          "the metric {} needs a label for each of the scores, but {}; take cosine, snr or a command", name_,
          labels.against_numbers);
  require(is_of_numbers || labels.classes, kInvalid,
          "the metric {} needs labels that are classes of the scores, but {}; take cosine, snr or a command", name_,
          labels.against);
}

double OutputMetric::of(const Model& model) const {
  if (is_of_trainings(name_)) return of_training(model);
  return is_command(name_) ? command(model) : beside_reference(model);
}

double OutputMetric::of_training(const Model& model) const {
  Session session(model, session_);
  const std::unique_ptr<train::Metric> metric = train::make_metric(name_);
  read_samples(model, data_, [&](const SampleBatch& batch) {
    metric->add(needed_scores(model, session.run(batch.inputs, kSameNumbers), name_), batch.labels);
    return true;
  });
  return metric->value();
}

double OutputMetric::beside_reference(const Model& model) const {
  Session session(model, session_), reference(reference_, session_);
  PowersByOutput powers;
  std::int64_t same = 0, all = 0;
  read_samples(model, data_, [&](const SampleBatch& batch) {
    const NamedValues outputs = session.run(batch.inputs, kSameNumbers),
                      expected = reference.run(batch.inputs, kSameNumbers);
    if (name_ != "agreement") {
      add_powers(powers, expected, outputs);
    } else if (const Tensor* scores = scores_of(reference_, expected)) {
      count_agreement(*scores, needed_scores(model, outputs, name_), *class_axis_, same, all);
    } else {
      count_equal(*classes_of(reference_, expected), *classes_of(model, outputs), same, all);
    }
    return true;
  });
  if (name_ == "agreement") return all == 0 ? 1 : static_cast<double>(same) / static_cast<double>(all);
  constexpr double kMostDb = 200;  // for the float model itself
  if (name_ == "snr") return std::clamp(lowest_snr_db(powers), -kMostDb, kMostDb);
  double lowest = 1;
  for (const auto& [name, each] : powers) lowest = std::min(lowest, each.cosine());
  return lowest;
}

double OutputMetric::command(const Model& model) const {
  Session session(model, session_);
  std::map<std::string, std::vector<Tensor>> parts;
  read_samples(model, data_, [&](const SampleBatch& batch) {
    for (const auto& [name, value] : session.run(batch.inputs, kSameNumbers)) {
      if (value.is_tensor()) parts[name].push_back(value.tensor());
    }
    if (batch.labels.has_value()) parts["labels"].push_back(batch.labels);
    return true;
  });
  std::map<std::string, Tensor> arrays;
  for (const auto& [name, tensors] : parts) arrays.emplace(name, joined(tensors));
  const ScratchFile file;
  io::write_npz(file.path(), arrays);
  return printed_number(name_.starts_with(kCommand) ? name_.substr(kCommand.size()) : name_, file.path());
}

void check_metric_name(const std::string& name) {
  const bool beside = std::ranges::find(kBesideReference, name) != kBesideReference.end();
  if (name.empty() || beside || is_command(name)) return;
  if (is_of_trainings(name)) {
    train::make_metric(name);  // checks the metric's argument, if it has one
    return;
  }
  fail(kInvalid,
       "there is no metric '{}'; expected one of {}, {}, or a command, written as 'command:{}' or as a path with a "
       "slash",
       name, fmt::join(kBesideReference, ", "), fmt::join(train::metric_names(), ", "), name);
}

bool has_labels(const Model& model, const CalibrationData& data) {
  bool any = false;
  read_samples(model, data, [&](const SampleBatch& batch) {
    any = batch.labels.has_value();
    return false;
  });
  return any;
}

double metric_drop(const std::string& name, double before, double after) {
  const bool smaller_is_better = is_of_trainings(name) && !train::larger_is_better(name);
  return smaller_is_better ? after - before : before - after;
}

}  // namespace tessera::compress
