#include "train/data/images/image_folder.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "io/image.h"
#include "io/image_resize.h"

namespace tessera::train {
namespace {

struct LabelledFile {
  std::string path;    // below the folder
  std::int64_t label;  // -1: of no known class
};

std::vector<std::string> sorted_names(const std::filesystem::path& folder, bool folders) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with('.') && entry.is_directory() == folders) names.push_back(name);
  }
  require(!error, error == std::errc::no_such_file_or_directory ? ErrorKind::not_found : ErrorKind::io,
          "folder '{}' cannot be read: {}", folder.string(), error.message());
  std::ranges::sort(names);
  return names;
}

class ImageFolder final : public Dataset {
 public:
  ImageFolder(std::filesystem::path folder, ImageFolderOptions options)
      : folder_(std::move(folder)), options_(std::move(options)), classes_(options_.classes) {
    require(options_.channels == 1 || options_.channels == 3, ErrorKind::invalid_argument,
            "pictures can have 1 or 3 channels, not {}", options_.channels);
    if (classes_.empty()) classes_ = sorted_names(folder_, true);
    require(!classes_.empty(), ErrorKind::invalid_argument,
            "'{}' holds no folders; expected one for each class, with pictures in it", folder_.string());
    for (std::size_t label = 0; label < classes_.size(); ++label) {
      // Test data need not have pictures of each class.
      if (!options_.classes.empty() && !std::filesystem::is_directory(folder_ / classes_[label])) continue;
      for (const std::string& name : sorted_names(folder_ / classes_[label], false))
        files_.push_back({classes_[label] + "/" + name, static_cast<std::int64_t>(label)});
    }
    add_unknown_classes();
    require(!files_.empty(), ErrorKind::invalid_argument, "the folders of classes in '{}' hold no files",
            folder_.string());
    if (options_.height <= 0 || options_.width <= 0) take_size_of_first();
    fields_ = {{"x", DType::f32, {options_.channels, options_.height, options_.width}}, {"y", DType::i64, {}}};
  }

  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
  std::string describe(std::int64_t index) const override {
    return (folder_ / files_[static_cast<std::size_t>(index)].path).string();
  }
  std::vector<std::string> class_names() const override { return classes_; }
  std::vector<std::pair<std::int64_t, std::string>> unreadable() const override {
    std::vector<std::pair<std::int64_t, std::string>> result;
    for (std::size_t i = 0; i < files_.size(); ++i) {
      const auto index = static_cast<std::int64_t>(i);
      if (files_[i].label < 0) result.emplace_back(index, fmt::format("{}: {}", describe(index), kUnknownClass));
    }
    return result;
  }
  std::int64_t memory_bytes() const override {
    std::int64_t bytes = 0;
    for (const LabelledFile& file : files_) bytes += static_cast<std::int64_t>(sizeof(file) + file.path.capacity());
    return bytes;
  }

  void read(std::int64_t index, std::span<std::byte* const> to) const override {
    const LabelledFile& file = files_[static_cast<std::size_t>(index)];
    require(file.label >= 0, ErrorKind::invalid_argument, "{}", kUnknownClass);
    const Tensor picture = io::read_image(folder_ / file.path, {.channels = options_.channels});
    resize_to_cover(picture, options_.height, options_.width, reinterpret_cast<float*>(to[0]));
    std::memcpy(to[1], &file.label, sizeof(file.label));
  }

  void read_field(std::int64_t index, std::size_t field, std::byte* to) const override {
    if (field != 1) return Dataset::read_field(index, field, to);
    std::memcpy(to, &files_[static_cast<std::size_t>(index)].label, sizeof(LabelledFile::label));
  }

 private:
  static constexpr const char* kUnknownClass = "its folder is no class of the training data";

  // Pictures of classes that the training data do not have cannot be read, so that they are counted.
  void add_unknown_classes() {
    if (options_.classes.empty()) return;
    for (const std::string& folder : sorted_names(folder_, true)) {
      if (std::ranges::find(classes_, folder) != classes_.end()) continue;
      for (const std::string& name : sorted_names(folder_ / folder, false)) files_.push_back({folder + "/" + name, -1});
    }
  }

  // The size of the first picture that can be read.
  void take_size_of_first() {
    for (const LabelledFile& file : files_) {
      try {
        const Tensor picture = io::read_image(folder_ / file.path, {.channels = options_.channels});
        options_.height = picture.shape()[0];
        options_.width = picture.shape()[1];
        return;
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::unsupported && &file == &files_.back()) throw;
      }
    }
    fail(ErrorKind::invalid_argument, "none of the {} files in '{}' is a picture that can be read", files_.size(),
         folder_.string());
  }

  std::filesystem::path folder_;
  ImageFolderOptions options_;
  std::vector<std::string> classes_;
  std::vector<LabelledFile> files_;
  std::vector<Field> fields_;
};

}  // namespace

void resize_to_cover(const Tensor& picture, std::int64_t height, std::int64_t width, float* to) {
  const auto rows = static_cast<double>(picture.shape()[0]), columns = static_cast<double>(picture.shape()[1]);
  const std::int64_t channels = picture.shape()[2];
  const double scale = std::min(rows / static_cast<double>(height), columns / static_cast<double>(width));
  io::ImageWindow window{.height = scale * static_cast<double>(height), .width = scale * static_cast<double>(width)};
  window.top = (rows - window.height) / 2;
  window.left = (columns - window.width) / 2;
  std::vector<float> values(static_cast<std::size_t>(height * width * channels));
  io::resize_image(picture, window, height, width, values.data());
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t i = 0; i < height * width; ++i)
      to[c * height * width + i] = values[static_cast<std::size_t>(i * channels + c)] / 255.0f;
  }
}

std::unique_ptr<Dataset> open_image_folder(const std::filesystem::path& folder, const ImageFolderOptions& options) {
  return std::make_unique<ImageFolder>(folder, options);
}

}  // namespace tessera::train
