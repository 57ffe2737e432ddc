// An OutputFile as what libzip writes an archive to.
#pragma once

#include <zip.h>

#include <cstdint>
#include <exception>

#include "io/output_file.h"

namespace tessera::io {

// Borrows the file. libzip writes it when the archive is closed; commit() is left to the caller.
class ZipOutput {
 public:
  explicit ZipOutput(OutputFile& file) : file_(file) {}
  ZipOutput(const ZipOutput&) = delete;
  ZipOutput& operator=(const ZipOutput&) = delete;

  // A new archive without entries, for the caller to close or discard before this object dies. Throws Error(io).
  zip_t* open();
  // Throws why zip_close failed: the file's own error where that was it.
  [[noreturn]] void fail(zip_t* archive) const;

 private:
  static zip_int64_t answer(void* self, void* data, zip_uint64_t bytes, zip_source_cmd_t command);
  zip_int64_t write(const void* data, zip_uint64_t bytes);
  zip_int64_t seek(void* data, zip_uint64_t bytes);

  OutputFile& file_;
  std::int64_t end_ = 0;
  std::exception_ptr error_;
  zip_error_t code_{};
};

}  // namespace tessera::io
