#include "train/data/data_source.h"

#include <algorithm>
#include <filesystem>
#include <type_traits>

#include "base/error.h"
#include "io/file.h"
#include "train/data/array_dataset.h"
#include "train/data/cached_dataset.h"
#include "train/data/callback_dataset.h"
#include "train/data/image_folder.h"
#include "train/data/sampler.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;

// Some of the samples of another set.
class Subset final : public Dataset {
 public:
  Subset(std::shared_ptr<const Dataset> data, std::vector<std::int64_t> samples)
      : data_(std::move(data)), samples_(std::move(samples)) {}

  const std::vector<Field>& fields() const override { return data_->fields(); }
  std::int64_t size() const override { return static_cast<std::int64_t>(samples_.size()); }
  void read(std::int64_t index, std::span<std::byte* const> to) const override { data_->read(at(index), to); }
  std::string describe(std::int64_t index) const override { return data_->describe(at(index)); }
  std::vector<std::string> class_names() const override { return data_->class_names(); }
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

// Opens what a path names; keeps what is learnt from training data.
class Opener {
 public:
  Opener(const TrainingData& options, DataSource& source) : options_(options), source_(source) {}

  std::unique_ptr<Dataset> open(const std::string& path, const std::string& labels, bool is_test) {
    require(fs::exists(path), ErrorKind::not_found, "data.{}: there is no '{}'", is_test ? "test" : "train", path);
    const std::string ending = fs::path(path).extension().string();
    if (fs::is_directory(path)) return is_cifar(path) ? open_cifar_dataset(path, is_test) : open_folder(path, is_test);
    if (ending == ".npz") return open_npz_dataset(path);
    if (ending == ".csv") return open_table(path);
    if (ending == ".txt") return open_text(path);
    require(!labels.empty(), ErrorKind::invalid_argument,
            "data.{}: '{}' is no .npz, .csv or .txt file and no folder; of an IDX file {}_labels must be given too",
            is_test ? "test" : "train", path, is_test ? "test" : "train");
    return open_idx_dataset(path, labels);
  }

 private:
  std::unique_ptr<Dataset> open_folder(const fs::path& folder, bool is_test) {
    const ImageFolderOptions pictures{options_.height, options_.width, static_cast<int>(options_.channels), classes_};
    std::unique_ptr<Dataset> data = open_image_folder(folder, pictures);
    if (!is_test) classes_ = data->class_names();
    return data;
  }

  std::unique_ptr<Dataset> open_table(const fs::path& path) {
    if (!source_.table) {
      CsvOptions csv;
      csv.target = options_.target_column;
      csv.target_is_number = options_.target_is_number;
      for (const auto& [column, kind] : options_.encodings) csv.encodings[column] = encoding_kind(kind);
      csv.ignored = options_.ignored_columns;
      csv.clip_quantile = options_.clip_quantile;
      require(!csv.target.empty(), ErrorKind::invalid_argument,
              "data.target_column is missing: which column of '{}' is to be predicted", path.string());
      source_.table = fit_table(path, csv);
    }
    return open_csv_dataset(path, *source_.table);
  }

  std::unique_ptr<Dataset> open_text(const fs::path& path) {
    const std::string text = text_of(path);
    const TokenLevel level = options_.tokens == "word" ? TokenLevel::word : TokenLevel::character;
    if (!source_.vocabulary) source_.vocabulary = Vocabulary::learn(text, level, options_.vocabulary);
    const TextTask task = options_.task == "next_token" ? TextTask::next_token : TextTask::tokens;
    return make_text_dataset(source_.vocabulary->encode(text), options_.length, task, path.string());
  }

  const TrainingData& options_;
  DataSource& source_;
  std::vector<std::string> classes_;
};

// The same samples whatever the seed of the training is, so that results of several seeds can be compared.
void hold_out(DataSource& source, double share) {
  const std::int64_t size = source.train->size();
  const auto held = static_cast<std::int64_t>(static_cast<double>(size) * share + 0.5);
  require(held > 0 && held < size, ErrorKind::invalid_argument,
          "data.hold_out: {} of {} samples leaves nothing to train or to test", share, size);
  std::vector<std::int64_t> order = epoch_order(size, true, 0, 0);
  std::vector<std::int64_t> test(order.end() - held, order.end());
  order.resize(order.size() - static_cast<std::size_t>(held));
  std::ranges::sort(order);
  std::ranges::sort(test);
  source.test = std::make_shared<Subset>(source.train, std::move(test));
  source.train = std::make_shared<Subset>(std::move(source.train), std::move(order));
}

std::shared_ptr<const Dataset> cached(std::shared_ptr<const Dataset> data, const std::string& cache) {
  if (cache == "memory") return cache_in_memory(std::move(data), std::int64_t{8} << 30);
  if (cache == "disk") return cache_on_disk(std::move(data), fs::temp_directory_path());
  return data;
}

template <typename From>
void convert_elements(const std::byte* from, std::byte* to, std::int64_t count, DType target) {
  const auto* in = reinterpret_cast<const From*>(from);
  if (target == DType::f32) {
    const float scale = std::is_same_v<From, std::uint8_t> ? 1.0f / 255 : 1.0f;
    for (std::int64_t i = 0; i < count; ++i) reinterpret_cast<float*>(to)[i] = static_cast<float>(in[i]) * scale;
  } else {
    for (std::int64_t i = 0; i < count; ++i) reinterpret_cast<std::int64_t*>(to)[i] = static_cast<std::int64_t>(in[i]);
  }
}

using Convert = void (*)(const std::byte*, std::byte*, std::int64_t, DType);

Convert conversion_of(DType type, DType target) {
  if (target == DType::f32 && type == DType::f64) return convert_elements<double>;
  if (target != DType::f32 && target != DType::i64) return nullptr;
  switch (type) {
    case DType::u8:
      return convert_elements<std::uint8_t>;
    case DType::i8:
      return convert_elements<std::int8_t>;
    case DType::u16:
      return convert_elements<std::uint16_t>;
    case DType::i16:
      return convert_elements<std::int16_t>;
    case DType::u32:
      return convert_elements<std::uint32_t>;
    case DType::i32:
      return convert_elements<std::int32_t>;
    case DType::i64:
      return convert_elements<std::int64_t>;
    case DType::boolean:
      return convert_elements<bool>;
    default:
      return nullptr;
  }
}

class Converted final : public Dataset {
 public:
  Converted(std::shared_ptr<const Dataset> data, const std::map<std::string, DType>& expected)
      : data_(std::move(data)), fields_(data_->fields()), conversions_(fields_.size()) {
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      const auto found = expected.find(fields_[i].name);
      if (found == expected.end() || found->second == fields_[i].dtype) continue;
      conversions_[i] = conversion_of(fields_[i].dtype, found->second);
      require(conversions_[i] != nullptr, ErrorKind::invalid_argument, "the data's field '{}' is {}, expected {}",
              fields_[i].name, name_of(fields_[i].dtype), name_of(found->second));
      fields_[i].dtype = found->second;
    }
  }

  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t size() const override { return data_->size(); }
  std::string describe(std::int64_t index) const override { return data_->describe(index); }
  std::vector<std::string> class_names() const override { return data_->class_names(); }
  std::int64_t memory_bytes() const override { return data_->memory_bytes(); }

  void read(std::int64_t index, std::span<std::byte* const> to) const override {
    const std::vector<Field>& given = data_->fields();
    std::vector<std::vector<std::byte>> scratch(fields_.size());
    std::vector<std::byte*> buffers(to.begin(), to.end());
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      if (conversions_[i] == nullptr) continue;
      scratch[i].resize(static_cast<std::size_t>(given[i].bytes()));
      buffers[i] = scratch[i].data();
    }
    data_->read(index, buffers);
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      if (conversions_[i] != nullptr)
        conversions_[i](buffers[i], to[i], element_count(fields_[i].shape), fields_[i].dtype);
    }
  }

 private:
  std::shared_ptr<const Dataset> data_;
  std::vector<Field> fields_;
  std::vector<Convert> conversions_;
};

}  // namespace

DataSource open_data(const TrainingData& data) {
  DataSource source;
  Opener opener(data, source);
  if (!data.train_arrays.empty()) source.train = make_array_dataset(data.train_arrays, "the training data");
  else if (data.train_source) source.train = made_by(*data.train_source, "the training source");
  else if (!data.train.empty()) source.train = opener.open(data.train, data.train_labels, false);
  else fail(ErrorKind::invalid_argument, "data.train is missing: the file or folder to learn from");
  if (!data.test_arrays.empty()) source.test = make_array_dataset(data.test_arrays, "the test data");
  else if (data.test_source) source.test = made_by(*data.test_source, "the test source");
  else if (!data.test.empty()) source.test = opener.open(data.test, data.test_labels, true);
  else if (data.hold_out > 0) hold_out(source, data.hold_out);
  else if (fs::is_directory(data.train) && is_cifar(data.train)) source.test = open_cifar_dataset(data.train, true);
  source.train = cached(std::move(source.train), data.cache);
  if (source.test) source.test = cached(std::move(source.test), data.cache);
  return source;
}

std::shared_ptr<const Dataset> converted(std::shared_ptr<const Dataset> data,
                                         const std::map<std::string, DType>& expected) {
  const bool fits = std::ranges::all_of(data->fields(), [&](const Field& field) {
    const auto found = expected.find(field.name);
    return found == expected.end() || found->second == field.dtype;
  });
  if (fits) return data;
  return std::make_shared<Converted>(std::move(data), expected);
}

}  // namespace tessera::train
