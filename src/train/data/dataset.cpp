#include "train/data/dataset.h"

#include <algorithm>

#include "base/error.h"

namespace tessera::train {

const Field& field_named(const Dataset& data, const std::string& name) {
  const auto found = std::ranges::find(data.fields(), name, &Field::name);
  if (found != data.fields().end()) return *found;
  std::string names;
  for (const Field& field : data.fields()) names += (names.empty() ? "'" : ", '") + field.name + "'";
  fail(ErrorKind::invalid_argument, "the data have no field '{}'; their fields are {}", name, names);
}

}  // namespace tessera::train
