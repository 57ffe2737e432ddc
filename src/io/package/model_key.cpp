#include "tessera/model_key.h"

#include <mutex>
#include <utility>

namespace tessera {
namespace {

struct DefaultKey {
  std::mutex mutex;
  std::shared_ptr<const ModelKey> key;
};

// Never destroyed: threads may load models until the process ends.
DefaultKey& default_key() {
  static DefaultKey& key = *new DefaultKey;
  return key;
}

}  // namespace

ModelKey::~ModelKey() = default;

void set_default_model_key(std::shared_ptr<const ModelKey> key) {
  DefaultKey& place = default_key();
  const std::lock_guard lock(place.mutex);
  place.key.swap(key);
}

std::shared_ptr<const ModelKey> default_model_key() {
  DefaultKey& place = default_key();
  const std::lock_guard lock(place.mutex);
  return place.key;
}

}  // namespace tessera
