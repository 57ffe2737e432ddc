// Devices and the machine.
#pragma once

#include <string>
#include <vector>

#include "tessera/export.h"

namespace tessera {

// Names for SessionOptions::device: "cpu", "reference", "null", and "simulated:PROFILE" for any device that there is a
// profile of, such as "simulated:h100-sxm" (docs/simulated.md).
TESSERA_API std::vector<std::string> device_names();
// The processor, its instruction sets as Tessera uses them, and the cores this process may use, for people:
// "AMD EPYC, avx512+vnni+bf16, 2 cores".
TESSERA_API std::string describe_machine();

}  // namespace tessera
