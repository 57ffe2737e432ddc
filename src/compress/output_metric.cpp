#include "compress/output_metric.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "io/npz.h"
#include "train/metrics.h"

namespace tessera::compress {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Models that are compared draw the same random numbers.
const RunOptions kSameNumbers{.seed = 0};

struct Powers {
  double signal = 0, noise = 0, other = 0, product = 0;

  void add(const Tensor& a, const Tensor& b) {
    for (std::int64_t i = 0; i < a.elements(); ++i) {
      const double x = static_cast<double>(a.data<float>()[i]), y = static_cast<double>(b.data<float>()[i]);
      signal += x * x;
      other += y * y;
      product += x * y;
      noise += (x - y) * (x - y);
    }
  }
  double snr_db() const {
    if (!std::isfinite(noise)) return -kInfinity;
    return noise == 0 ? kInfinity : 10 * std::log10(signal / noise);
  }
  double cosine() const {
    const double lengths = std::sqrt(signal * other);
    return !std::isfinite(noise) ? -1 : lengths > 0 ? product / lengths : 1;
  }
};

// By output, for those of float32.
void add_powers(std::map<std::string, Powers>& powers, const NamedValues& a, const NamedValues& b) {
  for (const auto& [name, value] : a) {
    if (value.is_tensor() && value.tensor().dtype() == DType::f32)
      powers[name].add(value.tensor(), b.at(name).tensor());
  }
}

const Tensor& scores_of(const Model& model, const NamedValues& outputs) {
  for (const ValueDescription& output : model.outputs()) {
    const Value& value = outputs.at(output.name);
    if (value.is_tensor() && value.tensor().dtype() == DType::f32 && value.tensor().rank() > 0) return value.tensor();
  }
  fail(ErrorKind::invalid_argument, "no output holds scores (f32), which accuracy and agreement need");
}

// Rows along the last axis whose largest element is at the same place.
void count_agreement(const Tensor& a, const Tensor& b, std::int64_t& same, std::int64_t& all) {
  const std::int64_t width = a.shape().back();
  if (width == 0) return;
  for (std::int64_t row = 0; row < a.elements() / width; ++row, ++all) {
    const float *x = a.data<float>() + row * width, *y = b.data<float>() + row * width;
    if (std::max_element(x, x + width) - x == std::max_element(y, y + width) - y) ++same;
  }
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

// Removed with its file at the end.
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

double output_snr_db(const std::vector<NamedValues>& signal, const std::vector<NamedValues>& other) {
  std::map<std::string, Powers> powers;
  for (std::size_t i = 0; i < signal.size(); ++i) add_powers(powers, signal[i], other[i]);
  double lowest = kInfinity;
  for (const auto& [name, each] : powers) lowest = std::min(lowest, each.snr_db());
  return lowest;
}

ReferenceOutputs::ReferenceOutputs(const Model& model, const CalibrationData& data, const SessionOptions& session,
                                   std::int64_t most_samples)
    : session_(session) {
  constexpr std::int64_t kMostBytes = std::int64_t{128} << 20;
  Session run(model, session);
  std::int64_t samples = 0, bytes = 0;
  read_samples(model, data, [&](const SampleBatch& batch) {
    samples_.push_back(batch.inputs);
    for (const auto& [name, value] : batch.inputs) bytes += value.tensor().bytes();
    outputs_.push_back(run.run(batch.inputs, kSameNumbers));
    for (const auto& [name, value] : outputs_.back()) bytes += value.is_tensor() ? value.tensor().bytes() : 0;
    samples += batch.samples;
    return samples < most_samples && bytes < kMostBytes;
  });
}

double ReferenceOutputs::snr_db_of(const Model& other) const {
  Session session(other, session_);
  std::vector<NamedValues> outputs;
  for (const NamedValues& inputs : samples_) outputs.push_back(session.run(inputs, kSameNumbers));
  return output_snr_db(outputs_, outputs);
}

OutputMetric::OutputMetric(std::string name, const Model& reference, const CalibrationData& data,
                           const SessionOptions& session)
    : name_(std::move(name)), reference_(reference), data_(data), session_(session) {
  bool labels = false;
  read_samples(reference_, data_, [&](const SampleBatch& batch) {
    labels = batch.labels.has_value();
    return false;
  });
  if (name_.empty()) name_ = labels ? "accuracy" : "agreement";
  require(
      labels || name_ != "accuracy", ErrorKind::invalid_argument,
      "the metric accuracy needs labels: an array 'labels' in the .npz file, or a folder of pictures for each class");
}

bool OutputMetric::is_built_in() const {
  return name_ == "accuracy" || name_ == "agreement" || name_ == "cosine" || name_ == "snr";
}

double OutputMetric::of(const Model& model) const {
  if (!is_built_in()) return command(model);
  Session session(model, session_), reference(reference_, session_);
  const std::unique_ptr<train::Metric> accuracy = train::make_metric("accuracy");
  std::map<std::string, Powers> powers;
  std::int64_t same = 0, all = 0;
  read_samples(model, data_, [&](const SampleBatch& batch) {
    const NamedValues outputs = session.run(batch.inputs, kSameNumbers);
    if (name_ == "accuracy") {
      const Tensor& scores = scores_of(model, outputs);
      accuracy->add(scores, batch.labels);
      return true;
    }
    const NamedValues expected = reference.run(batch.inputs, kSameNumbers);
    if (name_ == "agreement") count_agreement(scores_of(reference_, expected), scores_of(model, outputs), same, all);
    else add_powers(powers, expected, outputs);
    return true;
  });
  if (name_ == "accuracy") return accuracy->value();
  if (name_ == "agreement") return all == 0 ? 1 : static_cast<double>(same) / static_cast<double>(all);
  double lowest = name_ == "cosine" ? 1 : kInfinity;
  for (const auto& [name, each] : powers) lowest = std::min(lowest, name_ == "cosine" ? each.cosine() : each.snr_db());
  constexpr double kMostDb = 200;  // for the float model itself
  return std::clamp(lowest, -kMostDb, kMostDb);
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
  return printed_number(name_, file.path());
}

}  // namespace tessera::compress
