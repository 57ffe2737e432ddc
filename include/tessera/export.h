/* Marks what the shared library exports; everything else in it is hidden. Valid C and C++. */
#ifndef TESSERA_EXPORT_H
#define TESSERA_EXPORT_H

#if defined(__GNUC__)
#define TESSERA_API __attribute__((visibility("default")))
#define TESSERA_LOCAL __attribute__((visibility("hidden"))) /* a part of something exported that is not */
#else
#define TESSERA_API
#define TESSERA_LOCAL
#endif

#endif
