// Devices and the machine.
#pragma once

#include <string>
#include <vector>

namespace tessera {

// Names for SessionOptions::device: "cpu", "reference", "null" …
std::vector<std::string> device_names();
// The processor, its instruction sets as Tessera uses them, and the cores this process may use, for people:
// "AMD EPYC, avx512+vnni+bf16, 2 cores".
std::string describe_machine();

}  // namespace tessera
