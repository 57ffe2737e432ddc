// What kernel_table.cpp lists: for each kernel file its functions, factories and reject rules, under the file's stem.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"

namespace tessera::backends::cpu {}  // namespace tessera::backends::cpu
