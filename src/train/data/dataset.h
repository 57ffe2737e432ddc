// Samples by number: the interface of every source of training data to the loader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/error.h"
#include "tessera/tensor.h"

namespace tessera::train {

// One part of a sample, such as the image or the label. The shape has no batch dimension: in a batch of B samples, the
// field is a tensor [B, shape...].
struct Field {
  std::string name;
  DType dtype = DType::undefined;
  Shape shape;

  std::int64_t bytes() const { return byte_count(dtype, shape); }
};

// An error that skipping a sample cannot cure, such as a number that its type cannot represent. It ends the training,
// whereas other errors of Dataset::read only leave the sample out.
class DataFault : public Error {
 public:
  using Error::Error;
};

// Images are planar, [channels, height, width], in f32; sources of bytes divide them by 255.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const std::vector<Field>& fields() const = 0;
  virtual std::int64_t size() const = 0;
  // Writes the fields of sample `index` in [0, size()) to buffers of Field::bytes() bytes each. Thread-safe. Throws
  // Error for a sample that cannot be read or decoded; the contents of the buffers are undefined then.
  virtual void read(std::int64_t index, std::span<std::byte* const> to) const = 0;
  // Writes one field. Sources whose labels need no decoding do so without decoding the rest.
  virtual void read_field(std::int64_t index, std::size_t field, std::byte* to) const;
  // A name of the sample for users: "cats/17.png", "table.csv line 12".
  virtual std::string describe(std::int64_t index) const = 0;
  // The samples that are known to be unreadable before they are read, in ascending order, with the reasons. read()
  // throws for them.
  virtual std::vector<std::pair<std::int64_t, std::string>> unreadable() const { return {}; }
  // The names of the classes in the order of their numbers; empty if the source has no names.
  virtual std::vector<std::string> class_names() const { return {}; }
  // The bytes that the source keeps in memory, by its own account; mapped files do not count.
  virtual std::int64_t memory_bytes() const { return 0; }
};

// The field of that name. Throws Error(invalid_argument) that lists the fields.
const Field& field_named(const std::vector<Field>& fields, const std::string& name);

}  // namespace tessera::train
