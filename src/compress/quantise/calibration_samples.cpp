#include "compress/quantise/calibration_samples.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "compress/core/spread.h"
#include "io/file.h"
#include "io/npy.h"
#include "io/npz.h"
#include "io/npz_rows.h"
#include "io/toml_table.h"
#include "report/values/picture_input.h"
#include "train/data/element_conversion.h"

namespace tessera::compress {
namespace {

namespace fs = std::filesystem;
constexpr auto kWrong = ErrorKind::invalid_argument;

std::string type_text(DType dtype, const Shape& shape) {
  return fmt::format("{}{}", name_of(dtype), to_string(shape));
}

class Reader {
 public:
  Reader(const Model& model, CalibrationData data, const std::function<bool(const SampleBatch&)>& each)
      : model_(model), data_(std::move(data)), each_(each) {
    for (const ValueDescription& input : model.inputs()) inputs_.emplace(input.name, &input);
  }

  // Reads only the runs with these numbers, in ascending order.
  void run_some(const std::vector<std::int64_t>& runs) {
    chosen_ = &runs;
    run();
  }

  struct Size {
    std::int64_t runs = 0, samples = 0;
  };
  // Counts the runs and samples without reading them.
  Size count() {
    counts_ = true;
    run();
    return {runs_, samples_};
  }

  void run() {
    require(!data_.path.empty(), kWrong, "no calibration data; expected an .npz file, a folder or a .toml file");
    fs::path path(data_.path);
    if (path.extension() == ".toml") path = read_settings(path);
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) read_folder(path);
    else if (fs::exists(path, ignored) && path.extension() != ".npz")
      fail(kWrong, "'{}' is no calibration data; expected an .npz file, a folder or a .toml file", path.string());
    else read_npz_file(path, false);
    require(samples_ > 0, kWrong, "no samples in the calibration data '{}'", data_.path);
  }

 private:
  fs::path read_settings(const fs::path& path) {
    constexpr std::int64_t kMost = 1 << 20;
    const std::vector<std::byte> bytes = io::read_file(path, kMost);
    io::TomlTable table =
        io::TomlTable::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
    const std::string file = table.text("data", "");
    data_.normalise = table.text("normalise", data_.normalise);
    data_.labels = table.text("labels", data_.labels);
    data_.batch = table.whole("batch", data_.batch);
    data_.most_samples = table.whole("samples", data_.most_samples);
    table.check_all_read();
    require(!file.empty(), kWrong, "{}: no key 'data', expected the path of an .npz file or a folder", path.string());
    require(data_.batch >= 1 && data_.most_samples >= 0, kWrong, "{}: batch is {} and samples {}, expected at least 1",
            path.string(), data_.batch, data_.most_samples);
    return path.parent_path() / file;
  }

  bool is_label(const std::string& name) const {
    if (!data_.labels.empty()) return name == data_.labels;
    return name == "labels" || name == "label" || name == "y";
  }

  void check_shape(const ValueDescription& input, DType dtype, const Shape& shape) const {
    require(dtype == input.dtype, kWrong, "input '{}' has element type {}, expected {}", input.name, name_of(dtype),
            name_of(input.dtype));
    if (!input.rank_known) return;
    bool fits = shape.size() == input.dims.size();
    for (std::size_t i = 0; fits && i < shape.size(); ++i) fits = input.dims[i] < 0 || input.dims[i] == shape[i];
    require(fits, kWrong, "input '{}' is {}, expected {}", input.name, type_text(dtype, shape), input.type);
  }

  // Whether the next run is skipped.
  bool passes_over() const { return counts_ || (chosen_ != nullptr && !std::ranges::binary_search(*chosen_, runs_)); }
  // Counts a run of so many samples. Returns whether there is more to read behind it.
  bool pass(std::int64_t samples) {
    ++runs_;
    samples_ += samples;
    return (data_.most_samples == 0 || samples_ < data_.most_samples) &&
           (chosen_ == nullptr || runs_ <= chosen_->back());
  }

  bool give(SampleBatch batch, const std::string& where) {
    try {
      for (const auto& [name, input] : inputs_) {
        const auto found = batch.inputs.find(name);
        require(found != batch.inputs.end(), kWrong, "no data for the input '{}'", name);
        // Converts as a training does: u8 data for a float input are images.
        const Tensor tensor =
            train::is_convertible(found->second.tensor().dtype()) && train::is_convertible(input->dtype)
                ? train::converted_tensor(found->second.tensor(), input->dtype, true, "input '" + name + "'")
                : found->second.tensor();
        found->second = tensor;
        check_shape(*input, tensor.dtype(), tensor.shape());
        require(tensor.elements() > 0, kWrong, "input '{}' is empty: {}", name,
                type_text(tensor.dtype(), tensor.shape()));
        if (tensor.dtype() == DType::f32) check_finite(name, tensor);
      }
    } catch (Error& error) {
      error.add_context(where);
      throw;
    }
    const bool more = pass(batch.samples);
    return each_(batch) && more;
  }

  void check_finite(const std::string& name, const Tensor& tensor) const {
    const std::span<const float> values = tensor.values<float>();
    const auto bad = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
    if (bad == values.end()) return;
    const std::int64_t row =
        tensor.shape().empty()
            ? 0
            : (bad - values.begin()) / std::max<std::int64_t>(1, tensor.elements() / tensor.shape()[0]);
    fail(kWrong, "input '{}' holds {} in sample {}, expected finite numbers", name,
         std::isnan(*bad) ? "NaN" : "an infinity", samples_ + row);
  }

  // The input's name for each array's name; "" stands for the labels.
  std::map<std::string, std::string> names(const std::map<std::string, io::NpzRows::Array>& arrays) const {
    std::string listed;
    for (const auto& [name, array] : arrays) listed += (listed.empty() ? "" : ", ") + name;
    require(data_.labels.empty() || arrays.contains(data_.labels), kWrong,
            "there is no array '{}' for the labels; the file has {}", data_.labels, listed.empty() ? "none" : listed);
    require(data_.labels.empty() || !inputs_.contains(data_.labels), kWrong,
            "the array '{}' is an input of the model, expected labels", data_.labels);
    std::map<std::string, std::string> found;
    std::vector<std::string> unknown;
    for (const auto& [name, array] : arrays) {
      if (inputs_.contains(name)) found[name] = name;
      else if (is_label(name)) found[name] = "";
      else unknown.push_back(name);
    }
    // An array without a name of its own, or the only one beside the labels in a training's file, belongs to the only
    // input.
    const bool unnamed = arrays.contains("arr_0") || found.size() == 1;
    if (unknown.size() == 1 && inputs_.size() == 1 && unnamed && !arrays.contains(inputs_.begin()->first)) {
      found[unknown[0]] = inputs_.begin()->first;
      unknown.clear();
    }
    std::string expected;
    for (const auto& [name, input] : inputs_) expected += (expected.empty() ? "" : ", ") + name;
    for (const auto& [name, input] : inputs_) {
      const bool fed = std::ranges::any_of(found, [&](const auto& each) { return each.second == name; });
      require(fed || unknown.empty(), kWrong, "the array '{}' is no input of the model; expected {}{}",
              unknown.empty() ? "" : unknown[0], expected, data_.labels.empty() ? ", labels" : ", " + data_.labels);
      require(fed, kWrong, "no array for the input '{}'; the file has {}", name, listed.empty() ? "none" : listed);
    }
    // Other arrays are ignored, just as a training ignores fields that no input takes.
    return found;
  }

  bool read_npz_file(const fs::path& path, bool as_one_run) {
    const std::string where = "file " + path.string();
    io::NpzRows rows(path);
    try {
      return read_rows(rows, as_one_run, where);
    } catch (Error& error) {
      if (std::ranges::find(error.context(), where) == error.context().end()) error.add_context(where);
      throw;
    }
  }

  // If arrays have the rank of their inputs, their rows are samples; if they have one axis more, each row is the input
  // of a run. In a folder, a file whose arrays have the inputs' shapes makes one run.
  bool read_rows(io::NpzRows& rows, bool as_one_run, const std::string& where) {
    const std::map<std::string, std::string> target = names(rows.arrays());
    std::int64_t count = -1, batch = data_.batch;
    bool single = false, whole = as_one_run;
    for (const auto& [name, input_name] : target) {
      const io::NpzRows::Array& array = rows.arrays().at(name);
      require(count < 0 || count == array.shape[0], kWrong, "the array '{}' has {} rows, expected {} as the others",
              name, array.shape[0], count);
      count = array.shape[0];
      if (input_name.empty()) continue;
      const ValueDescription& input = *inputs_.at(input_name);
      if (!input.rank_known) continue;
      const bool row_is_run = array.shape.size() == input.dims.size() + 1;
      single = single || row_is_run;
      const bool fixed = !row_is_run && !input.dims.empty() && input.dims[0] >= 0;
      if (fixed) batch = input.dims[0];
      whole = whole && !row_is_run && (!fixed || input.dims[0] == count);
    }
    if (single) batch = 1;
    if (whole) batch = std::max<std::int64_t>(count, 1);
    for (std::int64_t at = 0; at + (single ? 1 : 0) <= count && at < count; at += batch) {
      if (at + batch > count && is_fixed(target)) break;
      const std::int64_t here = std::min(batch, count - at);
      if (passes_over()) {
        for (const auto& [name, input_name] : target) {
          if (!counts_) rows.skip(name, here);
        }
        if (!pass(here)) return false;
        continue;
      }
      SampleBatch made;
      made.samples = here;
      for (const auto& [name, input_name] : target) {
        Tensor tensor = rows.read(name, here);
        if (input_name.empty()) made.labels = std::move(tensor);
        else made.inputs[input_name] = as_input(*inputs_.at(input_name), std::move(tensor));
      }
      if (!give(std::move(made), where)) return false;
    }
    return true;
  }

  bool is_fixed(const std::map<std::string, std::string>& target) const {
    return std::ranges::any_of(target, [&](const auto& each) {
      if (each.second.empty()) return false;
      const ValueDescription& input = *inputs_.at(each.second);
      return input.rank_known && !input.dims.empty() && input.dims[0] > 1;
    });
  }

  static Tensor as_input(const ValueDescription& input, Tensor tensor) {
    if (!input.rank_known || tensor.shape().size() != input.dims.size() + 1) return tensor;
    return tensor.reshaped({tensor.shape().begin() + 1, tensor.shape().end()});
  }

  void read_folder(const fs::path& folder) {
    std::vector<fs::path> files;
    std::set<std::string> classes;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file() || entry.path().filename().string().starts_with(".")) continue;
      files.push_back(entry.path());
      if (entry.path().parent_path() != folder) classes.insert(fs::relative(entry.path(), folder).begin()->string());
    }
    std::ranges::sort(files);
    for (const fs::path& file : files) {
      bool more = false;
      if (file.extension() == ".npz") {
        more = read_npz_file(file, true);
      } else if (passes_over()) {
        more = pass(1);
      } else {
        require(data_.labels.empty(), kWrong, "there is no array '{}' for the labels in '{}', which is no .npz file",
                data_.labels, file.string());
        SampleBatch batch;
        batch.samples = 1;
        batch.inputs[only_input(file).name] = file.extension() == ".npy" ? io::read_npy(file) : picture(file);
        if (file.extension() == ".npy" && only_input(file).rank_known)
          batch.inputs.begin()->second = as_input_of_one(only_input(file), batch.inputs.begin()->second.tensor());
        const auto found = classes.find(fs::relative(file, folder).begin()->string());
        if (found != classes.end())
          batch.labels = Tensor::from<std::int64_t>({1}, {std::distance(classes.begin(), found)});
        more = give(std::move(batch), "file " + file.string());
      }
      if (!more) return;
    }
  }

  const ValueDescription& only_input(const fs::path& file) const {
    require(inputs_.size() == 1, kWrong, "'{}' is one array, but the model has {} inputs; expected .npz files",
            file.string(), inputs_.size());
    return *inputs_.begin()->second;
  }

  // Inserts the batch dimension if the array lacks it.
  static Tensor as_input_of_one(const ValueDescription& input, const Tensor& tensor) {
    if (tensor.shape().size() + 1 != input.dims.size()) return tensor;
    Shape shape = tensor.shape();
    shape.insert(shape.begin(), 1);
    return tensor.reshaped(std::move(shape));
  }

  Tensor picture(const fs::path& file) const {
    return report::read_picture_input(file, only_input(file), report::parse_picture_scale(data_.normalise)).tensor;
  }

  const Model& model_;
  CalibrationData data_;
  const std::function<bool(const SampleBatch&)>& each_;
  std::map<std::string, const ValueDescription*> inputs_;
  const std::vector<std::int64_t>* chosen_ = nullptr;  // sorted numbers of runs, not empty; null for all
  bool counts_ = false;                                // only counts, and reads nothing
  std::int64_t runs_ = 0, samples_ = 0;                // so far
};

}  // namespace

void read_samples(const Model& model, const CalibrationData& data,
                  const std::function<bool(const SampleBatch&)>& each) {
  Reader(model, data, each).run();
}

std::int64_t read_spread_samples(const Model& model, const CalibrationData& data, std::int64_t most_samples,
                                 const std::function<bool(const SampleBatch&)>& each) {
  const Reader::Size size = Reader(model, data, each).count();
  // Runs of more than one sample are not split.
  const std::int64_t parts = std::clamp<std::int64_t>(most_samples * size.runs / size.samples, 1, size.runs);
  constexpr std::uint64_t kSeed = 42;
  const std::vector<std::int64_t> chosen = spread_positions(size.runs, parts, kSeed);
  Reader(model, data, each).run_some(chosen);
  return size.samples;
}

}  // namespace tessera::compress
