// Parts that the readers of packages share.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "io/package.h"
#include "io/package/container.h"
#include "io/package/section_kinds.h"

namespace tessera::io {

// The container, decoded by `key` where it is protected; null: by default_model_key(). Throws Error(invalid_argument)
// if there is no key for it.
Container open_container(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner,
                         const ModelKey* key);
// Throws Error(invalid_model) where the container lacks the section, which messages call `name`.
std::span<const std::byte> section_bytes(const Container& container, SectionKind kind, std::string_view name);
PackageInfo read_package_info(const Container& container);

}  // namespace tessera::io
