// The inputs and outputs of a model, as it declares them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/dtype.h"

namespace tessera {

// An input or output as the model declares it.
struct ValueDescription {
  std::string name;
  std::string type;                // "f32[batch, 3, 224, 224]"
  DType dtype = DType::undefined;  // undefined when it is not a tensor
  bool rank_known = false;
  std::vector<std::int64_t> dims;      // -1 where not known
  std::vector<std::string> dim_names;  // symbolic name or ""
};

}  // namespace tessera
