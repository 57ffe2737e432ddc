#include "train/data/data_source.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "io/file.h"
#include "train/data/array_dataset.h"
#include "train/data/cached_dataset.h"
#include "train/data/callback_dataset.h"
#include "train/data/images/image_folder.h"
#include "train/data/sampler.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;

// A subset of another data set's samples.
class Subset final : public Dataset {
 public:
  Subset(std::shared_ptr<const Dataset> data, std::vector<std::int64_t> samples)
      : data_(std::move(data)), samples_(std::move(samples)) {}

  const std::vector<Field>& fields() const override { return data_->fields(); }
  std::int64_t size() const override { return static_cast<std::int64_t>(samples_.size()); }
  void read(std::int64_t index, std::span<std::byte* const> to) const override { data_->read(at(index), to); }
  void read_field(std::int64_t index, std::size_t field, std::byte* to) const override {
    data_->read_field(at(index), field, to);
  }
  std::string describe(std::int64_t index) const override { return data_->describe(at(index)); }
  std::vector<std::string> class_names() const override { return data_->class_names(); }
  std::vector<std::pair<std::int64_t, std::string>> unreadable() const override {
    std::map<std::int64_t, std::string> all;
    for (auto& [index, reason] : data_->unreadable()) all.emplace(index, std::move(reason));
    std::vector<std::pair<std::int64_t, std::string>> own;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      const auto found = all.find(samples_[i]);
      if (found != all.end()) own.emplace_back(static_cast<std::int64_t>(i), found->second);
    }
    return own;
  }
  std::int64_t memory_bytes() const override { return data_->memory_bytes(); }

 private:
  std::int64_t at(std::int64_t index) const { return samples_[static_cast<std::size_t>(index)]; }

  std::shared_ptr<const Dataset> data_;
  std::vector<std::int64_t> samples_;
};

bool is_cifar(const fs::path& folder) {
  return fs::exists(folder / "data_batch_1.bin") || fs::exists(folder / "train.bin");
}

std::string text_of(const fs::path& path) {
  const std::vector<std::byte> bytes = io::read_file(path, std::int64_t{4} << 30);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::unique_ptr<Dataset> made_by(const SampleSource& source, const char* name) {
  std::vector<Field> fields;
  for (const SampleSource::Field& field : source.fields) fields.push_back({field.name, field.dtype, field.shape});
  return make_callback_dataset(std::move(fields), source.size, source.read, name);
}

// The division into training, validation and test samples, each in ascending order.
struct Division {
  std::vector<std::int64_t> train, validation, test;
};

// The division does not depend on the training's seed, so that results of several seeds can be compared. The test data
// are the last samples of a random order, and the validation data those before them.
Division divide_samples(std::int64_t size, double test_share, double validation_share) {
  const auto part = [&](const char* name, double share) {
    const auto held = static_cast<std::int64_t>(static_cast<double>(size) * share + 0.5);
    require(share == 0 || (held > 0 && held < size), ErrorKind::invalid_argument,
            "data.{}: {} of {} samples leaves nothing to train or to test", name, share, size);
    return held;
  };
  const std::int64_t tested = part("hold_out", test_share), validated = part("validation_share", validation_share);
  require(tested + validated < size, ErrorKind::invalid_argument,
          "data.hold_out and data.validation_share take all {} samples: {} and {}", size, tested, validated);
  std::vector<std::int64_t> order = epoch_order(size, true, 0, 0);
  const auto take = [&](std::int64_t count) {
    std::vector<std::int64_t> samples(order.end() - count, order.end());
    order.resize(order.size() - static_cast<std::size_t>(count));
    std::ranges::sort(samples);
    return samples;
  };
  Division result;
  result.test = take(tested);
  result.validation = take(validated);
  std::ranges::sort(order);
  result.train = std::move(order);
  return result;
}

enum class DataKind : std::uint8_t { arrays, table, text, idx, pictures, cifar };

DataKind kind_of(const std::string& path) {
  const std::string ending = fs::path(path).extension().string();
  if (fs::is_directory(path)) return is_cifar(path) ? DataKind::cifar : DataKind::pictures;
  if (ending == ".npz") return DataKind::arrays;
  if (ending == ".csv" || ending == ".tsv") return DataKind::table;
  return ending == ".txt" ? DataKind::text : DataKind::idx;
}

// Opens the data that paths name, and keeps what is learnt from the training data.
class Opener {
 public:
  Opener(const TrainingData& options, DataSource& source) : options_(options), source_(source) {}

  // `key` is "train", "validation" or "test".
  std::unique_ptr<Dataset> open(const std::string& path, const std::string& labels, const std::string& key) {
    const bool is_test = key != "train";
    require(fs::exists(path), ErrorKind::not_found, "data.{}: there is no '{}'", key, path);
    switch (kind_of(path)) {
      case DataKind::cifar:
        return open_cifar_dataset(path, is_test);
      case DataKind::pictures:
        return open_folder(path, is_test);
      case DataKind::arrays:
        return open_npz_dataset(path);
      case DataKind::table:
        return open_table(path);
      case DataKind::text:
        return open_text(path);
      case DataKind::idx:
        break;
    }
    require(
        !labels.empty(), ErrorKind::invalid_argument,
        "data.{}: '{}' is no .npz, .csv, .tsv or .txt file and no folder; of an IDX file {}_labels must be given too",
        key, path, key);
    return open_idx_dataset(path, labels);
  }

 private:
  std::unique_ptr<Dataset> open_folder(const fs::path& folder, bool is_test) {
    const ImageFolderOptions pictures{height_, width_, static_cast<int>(options_.channels), classes_};
    std::unique_ptr<Dataset> data = open_image_folder(folder, pictures);
    if (!is_test) {
      classes_ = data->class_names();
      const Shape& size = data->fields()[0].shape;
      height_ = size[1];
      width_ = size[2];
    }
    return data;
  }

  std::unique_ptr<Dataset> open_table(const fs::path& path) {
    if (!source_.table) {
      CsvOptions csv;
      csv.target = options_.target_column;
      csv.target_is_number = options_.target_is_number;
      for (const auto& [column, kind] : options_.encodings) csv.encodings[column] = encoding_kind(kind);
      csv.ignored = options_.ignored_columns;
      csv.missing = options_.missing_values;
      csv.separator = separator();
      csv.clip_quantile = options_.clip_quantile;
      require(!csv.target.empty(), ErrorKind::invalid_argument,
              "data.target_column is missing: which column of '{}' is to be predicted", path.string());
      // If a share is held out, there are no separate test or validation data (see check_used).
      TrainedSamples trained;
      if (options_.hold_out > 0 || options_.validation_share > 0)
        trained = [this](std::int64_t size) {
          return divide_samples(size, options_.hold_out, options_.validation_share).train;
        };
      source_.table = fit_table(path, csv, trained);
    }
    return open_csv_dataset(path, *source_.table, separator());
  }

  char separator() const { return options_.separator.empty() ? '\0' : options_.separator[0]; }

  std::unique_ptr<Dataset> open_text(const fs::path& path) {
    const std::string text = text_of(path);
    const TokenLevel level = options_.tokens == "word" ? TokenLevel::word : TokenLevel::character;
    if (!source_.vocabulary) source_.vocabulary = TrainedVocabulary::learn(text, level, options_.vocabulary);
    const TextTask task = options_.task == "next_token" ? TextTask::next_token : TextTask::tokens;
    return make_text_dataset(source_.vocabulary->encode(text), options_.length, task, path.string());
  }

  const TrainingData& options_;
  DataSource& source_;
  // The classes of images in folders. Those of the training data apply to the test data too.
  std::vector<std::string> classes_;
  std::int64_t height_ = options_.height, width_ = options_.width;
};

// Throws if any option would be ignored.
void check_used(const TrainingData& data) {
  const bool has_test = !data.test.empty() || !data.test_arrays.empty() || data.test_source.has_value();
  require(data.hold_out == 0 || !has_test, ErrorKind::invalid_argument,
          "data.hold_out is {}, but there are test data too (data.test); leave out one of the two", data.hold_out);
  const bool has_validation =
      !data.validation.empty() || !data.validation_arrays.empty() || data.validation_source.has_value();
  require(data.validation_share == 0 || !has_validation, ErrorKind::invalid_argument,
          "data.validation_share is {}, but there are validation data too (data.validation); leave out one of the two",
          data.validation_share);
  require((data.height > 0) == (data.width > 0), ErrorKind::invalid_argument,
          "data.height is {} and data.width {}; expected both, or neither for the size of the first picture",
          data.height, data.width);
  const bool from_file = data.train_arrays.empty() && !data.train_source;
  if (from_file && !fs::exists(data.train)) return;  // opening it reports the error
  const DataKind kind = from_file ? kind_of(data.train) : DataKind::arrays;
  const TrainingData otherwise;
  const auto check = [&](bool given, const char* key, DataKind needed, const char* what) {
    require(!given || kind == needed, ErrorKind::invalid_argument, "data.{} is for {}, but data.train is {}", key, what,
            from_file ? "'" + data.train + "'" : "given as arrays or a function");
  };
  constexpr const char *kTable = "tables (.csv, .tsv)", *kText = "texts (.txt)";
  check(data.height > 0, "height", DataKind::pictures, "folders of pictures");
  check(!data.target_column.empty(), "target_column", DataKind::table, kTable);
  check(data.target_is_number, "target_is_number", DataKind::table, kTable);
  check(!data.encodings.empty(), "encodings", DataKind::table, kTable);
  check(!data.ignored_columns.empty(), "ignored_columns", DataKind::table, kTable);
  check(data.clip_quantile > 0, "clip_quantile", DataKind::table, kTable);
  check(!data.separator.empty(), "separator", DataKind::table, kTable);
  check(!data.missing_values.empty(), "missing_values", DataKind::table, kTable);
  check(data.tokens != otherwise.tokens, "tokens", DataKind::text, kText);
  check(data.task != otherwise.task, "task", DataKind::text, kText);
  check(data.length != otherwise.length, "length", DataKind::text, kText);
  check(data.vocabulary != otherwise.vocabulary, "vocabulary", DataKind::text, kText);
  check(!data.train_labels.empty(), "train_labels", DataKind::idx, "IDX files");
}

void hold_out(DataSource& source, double test_share, double validation_share) {
  Division parts = divide_samples(source.train->size(), test_share, validation_share);
  if (!parts.test.empty()) source.test = std::make_shared<Subset>(source.train, std::move(parts.test));
  if (!parts.validation.empty())
    source.validation = std::make_shared<Subset>(source.train, std::move(parts.validation));
  source.train = std::make_shared<Subset>(std::move(source.train), std::move(parts.train));
}

std::shared_ptr<const Dataset> cached(std::shared_ptr<const Dataset> data, const std::string& cache) {
  if (cache == "memory") return cache_in_memory(std::move(data), std::int64_t{8} << 30);
  if (cache == "disk") return cache_on_disk(std::move(data), fs::temp_directory_path());
  return data;
}

}  // namespace

DataSource open_data(const TrainingData& data) {
  check_used(data);
  DataSource source;
  Opener opener(data, source);
  if (!data.train_arrays.empty()) source.train = make_array_dataset(data.train_arrays, "the training data");
  else if (data.train_source) source.train = made_by(*data.train_source, "the training source");
  else if (!data.train.empty()) source.train = opener.open(data.train, data.train_labels, "train");
  else fail(ErrorKind::invalid_argument, "data.train is missing: the file or folder to learn from");
  if (!data.test_arrays.empty()) source.test = make_array_dataset(data.test_arrays, "the test data");
  else if (data.test_source) source.test = made_by(*data.test_source, "the test source");
  else if (!data.test.empty()) source.test = opener.open(data.test, data.test_labels, "test");
  else if (data.hold_out == 0 && fs::is_directory(data.train) && is_cifar(data.train))
    source.test = open_cifar_dataset(data.train, true);
  if (!data.validation_arrays.empty())
    source.validation = make_array_dataset(data.validation_arrays, "the validation data");
  else if (data.validation_source) source.validation = made_by(*data.validation_source, "the validation source");
  else if (!data.validation.empty())
    source.validation = opener.open(data.validation, data.validation_labels, "validation");
  const double test_share = source.test ? 0 : data.hold_out;
  const double validation_share = source.validation ? 0 : data.validation_share;
  if (test_share > 0 || validation_share > 0) hold_out(source, test_share, validation_share);
  source.train = cached(std::move(source.train), data.cache);
  if (source.validation) source.validation = cached(std::move(source.validation), data.cache);
  if (source.test) source.test = cached(std::move(source.test), data.cache);
  return source;
}

}  // namespace tessera::train
