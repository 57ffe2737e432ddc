// Samples in the element types that a net and its loss take.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "train/data/dataset.h"

namespace tessera::train {

// What a field becomes. `shape` has the elements of the field's own shape. `scales_bytes`: u8 becomes [0, 1], as the
// bytes of pictures are read; else numbers stay what they are.
struct FieldForm {
  DType dtype = DType::undefined;
  Shape shape;
  bool scales_bytes = false;
};

// The data with fields in these forms, by their names (train/data/element_conversion.h); others stay. Throws
// Error(invalid_argument) where an element type has no conversion. A number that its type cannot hold, such as 1.5 as
// an integer, is a DataFault when its sample is read.
std::shared_ptr<const Dataset> converted(std::shared_ptr<const Dataset> data,
                                         const std::map<std::string, FieldForm>& forms);

}  // namespace tessera::train
