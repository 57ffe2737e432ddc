/* For C: lets models decode pictures. In libtessera_images, not in libtessera. */
#ifndef TESSERA_TESSERA_IMAGES_H
#define TESSERA_TESSERA_IMAGES_H

#include "tessera/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Hands decoders of BMP, JPEG, JPEG 2000, PNG, PNM, TIFF and WebP to all sessions of the process. Thread-safe; calling
 * it again does nothing. */
TESSERA_API void tessera_register_image_codecs(void);

#ifdef __cplusplus
}
#endif

#endif
