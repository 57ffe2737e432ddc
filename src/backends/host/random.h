// The random numbers of a node.
#pragma once

#include <bit>
#include <cstdint>

#include "backends/backend.h"
#include "base/philox.h"

namespace tessera::backends::host {

// By the node's own seed if it has one; else by the run's seed, in a stream of the node's own.
inline base::Philox random_of(const KernelContext& context) {
  if (context.has_attribute("seed")) {
    const ir::Attribute& seed = context.node().attributes.find("seed")->second;
    if (const float* real = std::get_if<float>(&seed)) return base::Philox(std::bit_cast<std::uint32_t>(*real));
    return base::Philox(static_cast<std::uint64_t>(std::get<std::int64_t>(seed)));
  }
  std::uint64_t stream = 0xCBF29CE484222325;  // FNV-1a of the name
  for (const char c : context.node().name) stream = (stream ^ static_cast<std::uint8_t>(c)) * 0x100000001B3;
  for (const ir::ValueId output : context.node().outputs) {
    stream = (stream ^ static_cast<std::uint32_t>(output.index)) * 0x100000001B3;
  }
  return base::Philox(context.resources().seed, stream);
}

}  // namespace tessera::backends::host
