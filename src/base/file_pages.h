// Read-only mappings of files. Their pages count as memory in use once they were read, although the system could read
// them again from the file.
#pragma once

#include <cstddef>

namespace tessera::base {

// Registers [begin, begin + bytes) as a read-only mapping of a file, until it is unmapped. Thread-safe.
void add_file_mapping(const void* begin, std::size_t bytes);
void remove_file_mapping(const void* begin);

// Whether the address lies in a registered mapping. Thread-safe.
bool lies_in_file(const void* data);

// Gives the whole pages in [data, data + bytes) back to the system, if they lie in a registered mapping; reading them
// again gets them from the file. Does nothing to other memory. Thread-safe.
void release_file_pages(const void* data, std::size_t bytes);

}  // namespace tessera::base
