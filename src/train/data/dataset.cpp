#include "train/data/dataset.h"

#include <algorithm>

#include "base/error.h"

namespace tessera::train {

void Dataset::read_field(std::int64_t index, std::size_t field, std::byte* to) const {
  std::vector<std::vector<std::byte>> scratch;
  std::vector<std::byte*> buffers;
  for (std::size_t i = 0; i < fields().size(); ++i) {
    scratch.emplace_back(i == field ? 0 : static_cast<std::size_t>(fields()[i].bytes()));
    buffers.push_back(i == field ? to : scratch.back().data());
  }
  read(index, buffers);
}

const Field& field_named(const std::vector<Field>& fields, const std::string& name) {
  const auto found = std::ranges::find(fields, name, &Field::name);
  if (found != fields.end()) return *found;
  std::string names;
  for (const Field& field : fields) names += (names.empty() ? "'" : ", '") + field.name + "'";
  fail(ErrorKind::invalid_argument, "the data have no field '{}'; their fields are {}", name, names);
}

}  // namespace tessera::train
