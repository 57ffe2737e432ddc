// Mapped files: pages that were read count as memory in use, though the system could read them again.
#pragma once

#include <cstddef>

namespace tessera::base {

// Says that [begin, begin + bytes) is a read-only mapping of a file, until it is unmapped. Thread-safe.
void add_file_mapping(const void* begin, std::size_t bytes);
void remove_file_mapping(const void* begin);

// Whether it lies in such a mapping. Thread-safe.
bool lies_in_file(const void* data);

// Lets go of the whole pages in [data, data + bytes) where that lies in a mapping of a file; whoever reads them again
// gets them from the file. Other memory is left alone. Thread-safe.
void release_file_pages(const void* data, std::size_t bytes);

}  // namespace tessera::base
