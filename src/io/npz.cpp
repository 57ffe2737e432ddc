#include "io/npz.h"

#include <zip.h>

#include <limits>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/numbers/checked.h"
#include "io/file.h"
#include "io/npy.h"
#include "io/output_file.h"
#include "io/zip_output.h"

namespace tessera::io {
namespace {

using Archive = std::unique_ptr<zip_t, decltype(&zip_discard)>;
using Entry = std::unique_ptr<zip_file_t, decltype(&zip_fclose)>;

Archive checked(zip_t* opened, int code) {
  if (opened != nullptr) return {opened, &zip_discard};
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  fail(code == ZIP_ER_NOZIP || code == ZIP_ER_INCONS ? ErrorKind::invalid_argument : ErrorKind::io,
       "cannot open .npz archive: {}", text);
}

Archive open_for_reading(InputFile& file) {
  int code = 0;
  zip_t* opened = zip_fdopen(file.descriptor(), 0, &code);
  Archive archive = checked(opened, code);
  file.release();
  return archive;
}

Archive open_for_reading(std::span<const std::byte> bytes) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  Archive archive(source != nullptr ? zip_open_from_source(source, ZIP_RDONLY, &error) : nullptr, &zip_discard);
  const std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  if (archive == nullptr && source != nullptr) zip_source_free(source);  // an archive owns its source
  require(archive != nullptr, ErrorKind::invalid_argument, "cannot open .npz archive: {}", text);
  return archive;
}

struct EntryInfo {
  std::string file_name;
  std::string name;
  std::int64_t bytes = 0;
  std::int64_t packed_bytes = 0;
  bool compressed = false;
};

EntryInfo look_at(zip_t* archive, std::int64_t index) {
  zip_stat_t stat;
  zip_stat_init(&stat);
  require(zip_stat_index(archive, static_cast<zip_uint64_t>(index), 0, &stat) == 0, ErrorKind::invalid_argument,
          "entry {}: {}", index, zip_strerror(archive));
  constexpr zip_uint64_t needed =
      ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  require((stat.valid & needed) == needed, ErrorKind::invalid_argument, "entry {} has no name or size", index);
  EntryInfo info{stat.name, stat.name, 0, 0, stat.comp_method != ZIP_CM_STORE};
  require(info.name.ends_with(".npy") && info.name.size() > 4, ErrorKind::invalid_argument,
          "entry '{}' is not an .npy array", info.name);
  info.name.resize(info.name.size() - 4);
  require(stat.encryption_method == ZIP_EM_NONE, ErrorKind::unsupported, "entry '{}' is encrypted", info.file_name);
  require(stat.comp_method == ZIP_CM_STORE || stat.comp_method == ZIP_CM_DEFLATE, ErrorKind::unsupported,
          "entry '{}' has compression method {}; stored and deflated ones are read", info.file_name, stat.comp_method);
  constexpr auto most = static_cast<zip_uint64_t>(std::numeric_limits<std::int64_t>::max());
  require(stat.size <= most && stat.comp_size <= most, ErrorKind::over_budget, "entry '{}' states {} bytes, packed {}",
          info.file_name, stat.size, stat.comp_size);
  info.bytes = static_cast<std::int64_t>(stat.size);
  info.packed_bytes = static_cast<std::int64_t>(stat.comp_size);
  return info;
}

std::vector<EntryInfo> look_at_all(zip_t* archive, std::int64_t file_bytes, const NpzLimits& limits) {
  const std::int64_t count = zip_get_num_entries(archive, 0);
  require(count <= limits.max_arrays, ErrorKind::over_budget, "{} entries, more than the limit of {}", count,
          limits.max_arrays);
  std::vector<EntryInfo> entries;
  std::int64_t total = 0, packed = 0, inflated = 0, deflated = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const EntryInfo& entry = entries.emplace_back(look_at(archive, i));
    total = base::checked_add(total, entry.bytes);
    packed = base::checked_add(packed, entry.packed_bytes);
    if (!entry.compressed) continue;
    inflated = base::checked_add(inflated, entry.bytes);
    deflated = base::checked_add(deflated, entry.packed_bytes);
  }
  // More than there is: entries lie over each other, so that one piece of the file is read many times.
  require(packed <= file_bytes, ErrorKind::invalid_argument, "entries of {} packed bytes in a file of {}", packed,
          file_bytes);
  require(total <= limits.max_total_bytes, ErrorKind::over_budget,
          "arrays of {} bytes in all, more than the limit of {}", total, limits.max_total_bytes);
  require(inflated <= limits.max_inflated_bytes || inflated / limits.max_inflation <= deflated, ErrorKind::over_budget,
          "compressed arrays of {} bytes in all from {}, more than the limits of {} and {} : 1", inflated, deflated,
          limits.max_inflated_bytes, limits.max_inflation);
  return entries;
}

Tensor read_entry(zip_t* archive, std::int64_t index, const EntryInfo& info, DType raw) {
  Entry file(zip_fopen_index(archive, static_cast<zip_uint64_t>(index), 0), &zip_fclose);
  require(file != nullptr, ErrorKind::invalid_argument, "{}", zip_strerror(archive));
  const auto read = [&](std::span<std::byte> to) {
    while (!to.empty()) {
      const zip_int64_t got = zip_fread(file.get(), to.data(), to.size());
      require(got >= 0, ErrorKind::invalid_argument, "damaged data: {}", zip_file_strerror(file.get()));
      require(got > 0, ErrorKind::invalid_argument, "the data ends {} bytes early", to.size());
      to = to.subspan(static_cast<std::size_t>(got));
    }
  };
  Tensor tensor = read_npy_stream(read, info.bytes, raw);
  // Reading to the end is what makes libzip compare the checksum.
  std::byte beyond{};
  const zip_int64_t rest = zip_fread(file.get(), &beyond, 1);
  require(rest >= 0, ErrorKind::invalid_argument, "damaged data: {}", zip_file_strerror(file.get()));
  require(rest == 0, ErrorKind::invalid_argument, "more data than the {} bytes stated", info.bytes);
  return tensor;
}

std::map<std::string, Tensor> read_all(zip_t* archive, std::int64_t file_bytes, const NpzLimits& limits,
                                       const RawTypes& raw_type) {
  const std::vector<EntryInfo> entries = look_at_all(archive, file_bytes, limits);
  std::map<std::string, Tensor> arrays;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    require(!arrays.contains(entries[i].name), ErrorKind::invalid_argument, "two entries are named '{}'",
            entries[i].file_name);
    try {
      const DType raw = raw_type ? raw_type(entries[i].name) : DType::undefined;
      arrays.emplace(entries[i].name, read_entry(archive, static_cast<std::int64_t>(i), entries[i], raw));
    } catch (Error& error) {
      error.add_context(fmt::format("entry {}", base::shown(entries[i].file_name)));
      throw;
    }
  }
  return arrays;
}

// The fragments are borrowed: `image` must live until the archive is closed.
void add_entry(zip_t* archive, const std::string& name, const NpyImage& image) {
  const std::span<const std::byte> data = image.bytes();
  const zip_buffer_fragment_t fragments[] = {
      {reinterpret_cast<zip_uint8_t*>(const_cast<char*>(image.header.data())), image.header.size()},
      {reinterpret_cast<zip_uint8_t*>(const_cast<std::byte*>(data.data())), data.size()}};
  zip_source_t* source = zip_source_buffer_fragment(archive, fragments, data.empty() ? 1 : 2, 0);
  require(source != nullptr, ErrorKind::io, "{}", zip_strerror(archive));
  const zip_int64_t index = zip_file_add(archive, (name + ".npy").c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) zip_source_free(source);
  require(index >= 0, ErrorKind::io, "cannot add entry '{}': {}", name, zip_strerror(archive));
  const zip_uint64_t at = static_cast<zip_uint64_t>(index);
  constexpr zip_uint16_t first_date = 1 << 5 | 1;  // 1980-01-01, the earliest that a zip file can state
  const bool set = zip_set_file_compression(archive, at, ZIP_CM_STORE, 0) == 0 &&
                   zip_file_set_dostime(archive, at, 0, first_date, 0) == 0;
  require(set, ErrorKind::io, "cannot add entry '{}': {}", name, zip_strerror(archive));
}

}  // namespace

std::map<std::string, Tensor> read_npz(const std::filesystem::path& path, const NpzLimits& limits,
                                       const RawTypes& raw_type) {
  InputFile file = InputFile::open(path);
  try {
    const std::int64_t file_bytes = file.bytes();
    const Archive archive = open_for_reading(file);
    return read_all(archive.get(), file_bytes, limits, raw_type);
  } catch (Error& error) {
    error.add_context(fmt::format("file {}", path.string()));
    throw;
  }
}

std::map<std::string, Tensor> read_npz_bytes(std::span<const std::byte> bytes, const NpzLimits& limits,
                                             const RawTypes& raw_type) {
  return read_all(open_for_reading(bytes).get(), static_cast<std::int64_t>(bytes.size()), limits, raw_type);
}

void write_npz(const std::filesystem::path& path, const std::map<std::string, Tensor>& arrays) {
  OutputFile file(path);
  if (arrays.empty()) {
    // libzip removes an archive without entries; a bare end record (APPNOTE.TXT 4.3.16) is what numpy writes.
    constexpr char end_record[22] = {'P', 'K', 5, 6};
    file.write(std::as_bytes(std::span(end_record)));
    return file.commit();
  }
  std::vector<NpyImage> images;
  images.reserve(arrays.size());
  ZipOutput output(file);
  Archive archive(output.open(), &zip_discard);
  for (const auto& [name, tensor] : arrays) {
    require(!name.empty(), ErrorKind::invalid_argument, "an array without a name cannot stand in an .npz archive");
    images.push_back(npy_image(tensor));
    add_entry(archive.get(), name, images.back());
  }
  if (zip_close(archive.get()) != 0) output.fail(archive.get());
  archive.release();
  file.commit();
}

}  // namespace tessera::io
