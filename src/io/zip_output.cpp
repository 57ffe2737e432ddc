#include "io/zip_output.h"

#include <algorithm>
#include <cerrno>

#include "base/error.h"

namespace tessera::io {

zip_int64_t ZipOutput::write(const void* data, zip_uint64_t bytes) {
  try {
    file_.write({static_cast<const std::byte*>(data), static_cast<std::size_t>(bytes)});
    end_ = std::max(end_, file_.position());
    return static_cast<zip_int64_t>(bytes);
  } catch (...) {  // libzip is C
    error_ = std::current_exception();
    zip_error_set(&code_, ZIP_ER_WRITE, EIO);
    return -1;
  }
}

zip_int64_t ZipOutput::seek(void* data, zip_uint64_t bytes) {
  const zip_int64_t to = zip_source_seek_compute_offset(static_cast<zip_uint64_t>(file_.position()),
                                                        static_cast<zip_uint64_t>(end_), data, bytes, &code_);
  if (to < 0) return -1;
  file_.seek(to);
  return 0;
}

// "zip_source_function" of libzip's manual says what each command must do.
zip_int64_t ZipOutput::answer(void* self, void* data, zip_uint64_t bytes, zip_source_cmd_t command) {
  ZipOutput& output = *static_cast<ZipOutput*>(self);
  switch (command) {
    case ZIP_SOURCE_SUPPORTS:
      // Archives that are written are seekable as well, for libzip; a new one is never read.
      return zip_source_make_command_bitmap(ZIP_SOURCE_SUPPORTS, ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE,
                                            ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE, ZIP_SOURCE_SEEK,
                                            ZIP_SOURCE_TELL, ZIP_SOURCE_BEGIN_WRITE, ZIP_SOURCE_COMMIT_WRITE,
                                            ZIP_SOURCE_ROLLBACK_WRITE, ZIP_SOURCE_WRITE, ZIP_SOURCE_SEEK_WRITE,
                                            ZIP_SOURCE_TELL_WRITE, ZIP_SOURCE_REMOVE, -1);
    case ZIP_SOURCE_STAT: {
      auto* stat = static_cast<zip_stat_t*>(data);
      zip_stat_init(stat);
      stat->size = 0;
      stat->valid = ZIP_STAT_SIZE;
      return sizeof(*stat);
    }
    case ZIP_SOURCE_ERROR:
      return zip_error_to_data(&output.code_, data, bytes);
    case ZIP_SOURCE_WRITE:
      return output.write(data, bytes);
    case ZIP_SOURCE_SEEK_WRITE:
      return output.seek(data, bytes);
    case ZIP_SOURCE_TELL_WRITE:
      return output.file_.position();
    case ZIP_SOURCE_OPEN:
    case ZIP_SOURCE_BEGIN_WRITE:
    case ZIP_SOURCE_COMMIT_WRITE:
    case ZIP_SOURCE_ROLLBACK_WRITE:
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_FREE:
      return 0;
    default:
      zip_error_set(&output.code_, ZIP_ER_OPNOTSUPP, 0);
      return -1;
  }
}

zip_t* ZipOutput::open() {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_function_create(&answer, this, &error);
  zip_t* archive = source != nullptr ? zip_open_from_source(source, ZIP_CREATE | ZIP_TRUNCATE, &error) : nullptr;
  const std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  if (archive == nullptr && source != nullptr) zip_source_free(source);  // an archive owns its source
  require(archive != nullptr, ErrorKind::io, "cannot write an archive: {}", text);
  return archive;
}

void ZipOutput::fail(zip_t* archive) const {
  if (error_ != nullptr) std::rethrow_exception(error_);
  tessera::fail(ErrorKind::io, "cannot write an archive: {}", zip_strerror(archive));
}

}  // namespace tessera::io
