#include <algorithm>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "io/file.h"
#include "train/data/array_dataset.h"
#include "train/data/images/byte_pictures.h"

namespace tessera::train {
namespace {

constexpr std::int64_t kPictureBytes = 3 * 32 * 32;
constexpr std::int64_t kMostFileBytes = std::int64_t{1} << 30;

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

// The files of one part, in order; CIFAR-100 has two labels a picture, of which the second is the fine one.
struct Part {
  std::vector<std::filesystem::path> files;
  std::int64_t labels = 1;
};

Part find_part(const std::filesystem::path& folder, bool test) {
  Part part;
  if (std::filesystem::exists(folder / "train.bin") || std::filesystem::exists(folder / "test.bin")) {
    part.labels = 2;
    part.files = {folder / (test ? "test.bin" : "train.bin")};
  } else if (test) {
    part.files = {folder / "test_batch.bin"};
  } else {
    for (int i = 1; std::filesystem::exists(folder / fmt::format("data_batch_{}.bin", i)); ++i)
      part.files.push_back(folder / fmt::format("data_batch_{}.bin", i));
    require(!part.files.empty(), ErrorKind::not_found,
            "'{}' holds neither data_batch_1.bin (CIFAR-10) nor train.bin (CIFAR-100)", folder.string());
  }
  return part;
}

}  // namespace

std::unique_ptr<Dataset> open_cifar_dataset(const std::filesystem::path& folder, bool test) {
  const Part part = find_part(folder, test);
  const std::int64_t record = part.labels + kPictureBytes;
  std::vector<std::vector<std::byte>> contents;
  std::int64_t pictures = 0;
  for (const std::filesystem::path& file : part.files) {
    contents.push_back(io::read_file(file, kMostFileBytes));
    const auto bytes = static_cast<std::int64_t>(contents.back().size());
    require(bytes > 0 && bytes % record == 0, ErrorKind::invalid_argument,
            "'{}' has {} bytes, expected a multiple of {} ({} bytes of labels and 3 × 32 × 32 of the picture each)",
            file.string(), bytes, record, part.labels);
    pictures += bytes / record;
  }
  Tensor x(DType::u8, {pictures, 3, 32, 32});
  Tensor y(DType::u8, {pictures});
  auto* picture = static_cast<std::byte*>(x.mutable_raw());
  auto* label = static_cast<std::byte*>(y.mutable_raw());
  for (const std::vector<std::byte>& bytes : contents) {
    for (std::size_t at = 0; at < bytes.size(); at += static_cast<std::size_t>(record)) {
      *label++ = bytes[at + static_cast<std::size_t>(part.labels) - 1];
      std::memcpy(picture, bytes.data() + at + part.labels, kPictureBytes);
      picture += kPictureBytes;
    }
  }
  std::vector<std::string> names = lines_of(folder / (part.labels == 2 ? "fine_label_names.txt" : "batches.meta.txt"));
  return make_byte_pictures(std::move(x), y, folder.string(), std::move(names));
}

}  // namespace tessera::train
