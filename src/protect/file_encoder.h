// Writes protected files: the io::SectionEncoder of this folder.
#pragma once

#include <memory>
#include <vector>

#include "io/package/section_decoder.h"
#include "protect/key_file.h"
#include "protect/protection.h"

namespace tessera::protect {

// Every file that one encoder writes has the same file key and recipients, and an identity of its own, from which the
// keys of its sections follow.
class FileEncoder : public io::SectionEncoder {
 public:
  // `publisher`: of kind publisher_secret, or null for files without a signature.
  FileEncoder(std::shared_ptr<const Secret> file_key, const KeyId& id, std::vector<KeySlot> slots,
              std::shared_ptr<const Key> publisher);
  std::unique_ptr<io::FileEncoding> begin() const override;

 private:
  std::shared_ptr<const Secret> file_key_;
  Protection common_;
  std::shared_ptr<const Key> publisher_;
};

}  // namespace tessera::protect
