#include "io/onnx/mapped_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file_pages.h"

namespace tessera::io {

std::shared_ptr<const MappedFile> MappedFile::map(const InputFile& file) {
  const auto size = static_cast<std::size_t>(file.bytes());
  void* data = nullptr;
  if (size > 0) {
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
    require(data != MAP_FAILED, ErrorKind::io, "cannot map '{}': {}", file.name(), std::strerror(errno));
  }
  if (data != nullptr) base::add_file_mapping(data, size);
  return std::shared_ptr<const MappedFile>(new MappedFile(data, size));
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  base::remove_file_mapping(data_);
  ::munmap(data_, size_);
}

}  // namespace tessera::io
