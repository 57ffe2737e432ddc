// The key of a protected model (docs/protect.md). tessera/protect.h makes keys of files, commands and passwords.
#pragma once

#include <memory>

#include "tessera/export.h"

namespace tessera {

namespace io {
class Container;
class SectionDecoder;
}  // namespace io

// Opens protected files. Thread-safe.
class TESSERA_API ModelKey {
 public:
  virtual ~ModelKey();
  // For readers of files inside Tessera. Throws Error: invalid_argument where the file is not for this key,
  // invalid_model where it was changed; and what getting the key throws, which may happen here.
  virtual std::shared_ptr<const io::SectionDecoder> open(const io::Container& file) const = 0;
};

// The key that is tried for protected files where the caller gives none; null, as at the start: such files are refused.
// Thread-safe.
TESSERA_API void set_default_model_key(std::shared_ptr<const ModelKey> key);
TESSERA_API std::shared_ptr<const ModelKey> default_model_key();

}  // namespace tessera
