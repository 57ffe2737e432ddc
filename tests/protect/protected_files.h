// Protected files for tests, and changes to them.
#pragma once

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/file.h"
#include "io/output_file.h"
#include "io/package/container.h"
#include "models/models.h"
#include "runtime/session/random_inputs.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "tessera/protect.h"
#include "tessera/session.h"

namespace tessera::test {

inline constexpr std::size_t kTable = 64, kEntry = 96;  // bytes of the container's header and of an entry

inline std::vector<std::byte> bytes_of_file(const std::filesystem::path& path) {
  return io::read_file(path, std::int64_t{1} << 32);
}

inline void write_bytes(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  io::write_text(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

template <typename T>
T number_at(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}
template <typename T>
void set_number(std::span<std::byte> bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
}

// Makes the checksums of sections and table right, as a forger would, so that only the encryption can tell.
inline void make_checksums_right(std::span<std::byte> bytes) {
  const std::size_t count = number_at<std::uint32_t>(bytes, 12);
  for (std::size_t entry = kTable; entry < kTable + count * kEntry; entry += kEntry) {
    const auto offset = number_at<std::uint64_t>(bytes, entry + 40),
               stored = number_at<std::uint64_t>(bytes, entry + 48);
    set_number(bytes, entry + 64, static_cast<std::uint64_t>(XXH3_64bits(bytes.data() + offset, stored)));
  }
  set_number(bytes, 24, static_cast<std::uint64_t>(XXH3_64bits(bytes.data() + kTable, count * kEntry)));
}

// A folder with keys and the small net lenet5, protected for model.key.
class ProtectedFiles : public testing::Test {
 protected:
  ProtectedFiles() { write_new_keys(keys); }

  static Model build(const std::string& name, std::map<std::string, std::int64_t> dims = {{"batch", 1}}) {
    models::BuildOptions options;
    options.dims = std::move(dims);
    return Model(std::make_shared<const ir::Graph>(models::build_model(name, options)));
  }
  void make() { protect_model(build("lenet5"), file, options()); }
  KeySource key(const std::string& name = "model.key") const { return {.file = (keys / name).string()}; }
  ProtectOptions options() const { return {.keys = {key()}, .publisher = {}}; }
  static Model load(const std::filesystem::path& path, const KeySource& by) {
    return Model::load(path, {}, make_model_key(by));
  }
  Model load() const { return load(file, key()); }
  // Everything that reading a file does: the graph, and all weights by a run.
  void load_and_run(const std::filesystem::path& path) const {
    const Model model = load(path, key());
    Session(model).run(runtime::random_inputs(model, 1));
  }

  const TemporaryFolder folder;
  const std::filesystem::path keys = folder / "keys", file = folder / "model.tsr", other = folder / "other.tsr";
};

}  // namespace tessera::test
