#include "train/data/dataset.h"

#include <algorithm>

#include "base/error.h"

namespace tessera::train {

const Field& field_named(const std::vector<Field>& fields, const std::string& name) {
  const auto found = std::ranges::find(fields, name, &Field::name);
  if (found != fields.end()) return *found;
  std::string names;
  for (const Field& field : fields) names += (names.empty() ? "'" : ", '") + field.name + "'";
  fail(ErrorKind::invalid_argument, "the data have no field '{}'; their fields are {}", name, names);
}

}  // namespace tessera::train
