// Converts samples to the element types that a net and its loss take.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "train/data/dataset.h"

namespace tessera::train {

// The type and shape that a field is converted to. `shape` has as many elements as the field's own shape. With
// `scales_bytes`, u8 is scaled to [0, 1], as images are; otherwise numbers keep their values.
struct FieldForm {
  DType dtype = DType::undefined;
  Shape shape;
  bool scales_bytes = false;
};

// The data with the named fields in these forms (train/data/element_conversion.h), and all others unchanged. Throws
// Error(invalid_argument) if an element type has no conversion. Reading a sample throws DataFault if a number cannot be
// represented, such as 1.5 as an integer.
std::shared_ptr<const Dataset> converted(std::shared_ptr<const Dataset> data,
                                         const std::map<std::string, FieldForm>& forms);

}  // namespace tessera::train
