// How an image is to be turned for display, as cameras note it in the tag Orientation of EXIF (TIFF 6.0, tag 274).
#pragma once

#include "io/image/decoders.h"

namespace tessera::io {

// 1 to 8; 1 is upright. For whatever is malformed or missing the result is 1: an image without a readable note of its
// orientation is taken as it stands.
//
// `exif` is the structure of a TIFF file ("II" or "MM"), with or without "Exif\0\0" in front.
int exif_orientation(Bytes exif);
// The orientation of a whole file, from the first APP1 segment "Exif" before the image data of a JPEG, the chunk eXIf
// of a PNG, the chunk EXIF of a WebP.
int jpeg_orientation(Bytes file);
int png_orientation(Bytes file);
int webp_orientation(Bytes file);

// The image [height, width, channels] as it is to be seen; with 5 to 8, height and width change places.
Tensor oriented(Tensor pixels, int orientation);

}  // namespace tessera::io
