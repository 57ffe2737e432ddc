// Samples by number: what every source of training data looks like to the loader.
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

// One part of a sample, such as the picture or the label. The shape has no batch dimension: a batch of B samples is a
// tensor [B, shape...].
struct Field {
  std::string name;
  DType dtype = DType::undefined;
  Shape shape;

  std::int64_t bytes() const { return byte_count(dtype, shape); }
};

// A fault that no other sample can make up for, such as a number that its type cannot hold: it ends the training, where
// other errors of Dataset::read leave the sample out.
class DataFault : public Error {
 public:
  using Error::Error;
};

// Pictures are planar, [channels, height, width], in f32; a source of bytes divides them by 255.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const std::vector<Field>& fields() const = 0;
  virtual std::int64_t size() const = 0;
  // Writes the fields of sample `index` in [0, size()) to buffers of Field::bytes() bytes each. Thread-safe. Throws
  // Error for a sample that cannot be read or decoded; what the buffers hold is undefined then.
  virtual void read(std::int64_t index, std::span<std::byte* const> to) const = 0;
  // Writes that field alone. Sources whose labels need no decoding do it without.
  virtual void read_field(std::int64_t index, std::size_t field, std::byte* to) const;
  // What a user would call the sample: "cats/17.png", "table.csv line 12".
  virtual std::string describe(std::int64_t index) const = 0;
  // Samples that are known to be unreadable before they are read, in ascending order, and why: read() throws for them.
  virtual std::vector<std::pair<std::int64_t, std::string>> unreadable() const { return {}; }
  // Names of the classes in the order of their numbers, where the source has names.
  virtual std::vector<std::string> class_names() const { return {}; }
  // Bytes that the source keeps in memory, as it says; mapped files do not count.
  virtual std::int64_t memory_bytes() const { return 0; }
};

// The field of that name. Throws Error(invalid_argument) that lists the fields.
const Field& field_named(const std::vector<Field>& fields, const std::string& name);

}  // namespace tessera::train
