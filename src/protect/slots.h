// Wraps the key of a file for its recipients, and unwraps it.
#pragma once

#include <optional>

#include "protect/key_file.h"
#include "protect/protection.h"

namespace tessera::protect {

inline constexpr std::size_t kFileKeyBytes = 32;

// `key`: symmetric or recipient; anything else throws Error(invalid_argument).
KeySlot wrap_for_key(const Secret& file_key, const KeyId& id, const Key& key);
KeySlot wrap_for_password(const Secret& file_key, const KeyId& id, const Secret& password);

// The file key by a symmetric or recipient-secret key, or by a password. Throws Error: invalid_argument where no slot
// is for it or, of a password, opens by it; invalid_model where a slot that is for it was changed.
Secret unwrap_by_key(const Protection& protection, const Key& key);
Secret unwrap_by_password(const Protection& protection, const Secret& password);

// Whether the slot is for the key, for people: "symmetric key 3f…", "recipient 5a…", "password".
std::string describe(const KeySlot& slot);

}  // namespace tessera::protect
