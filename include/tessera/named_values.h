// Values by the names of the inputs or outputs that they are for.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "tessera/tensor.h"

namespace tessera {

using NamedValues = std::map<std::string, Value, std::less<>>;

}  // namespace tessera
