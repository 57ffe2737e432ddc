// What a JPEG 2000 file says of itself, read before its decoder sees it: small files can ask that for vast tables.
#pragma once

#include "io/image/decoders.h"

namespace tessera::io {

struct Jpeg2000Header {
  std::int64_t width = 0, height = 0, components = 0;
  bool is_codestream = false;  // without the boxes of a JP2 file around it
};

// Throws Error(invalid_argument) for a malformed header, or when the file is too short for the tiles, precincts and
// layers that it announces: each tile has a header of 12 bytes, and each packet (a layer of a precinct) at least one
// byte (ISO/IEC 15444-1, annexes A and B). Error(unsupported) for more than 4 components.
Jpeg2000Header read_jpeg2000_header(Bytes bytes);

}  // namespace tessera::io
