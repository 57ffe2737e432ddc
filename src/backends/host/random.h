// The random numbers of a node.
#pragma once

#include <bit>
#include <cstdint>

#include "backends/backend.h"
#include "base/numbers/philox.h"
#include "base/run_seed.h"
#include "ops/symbols.h"
#include "ops/values/random_streams.h"

namespace tessera::backends::host {

// The generator: seeded by the node's seed attribute and the run's number if the node has one; else by the run's seed,
// with a stream specific to the node.
inline base::Philox random_of(const KernelContext& context) {
  const ir::Attributes& held = ops::attributes_of_symbol(context.node());
  const ir::Attributes& attributes = held.empty() ? context.node().attributes : held;
  const std::uint64_t run = context.resources().seed;
  if (const auto seed = attributes.find("seed"); seed != attributes.end()) {
    const float* real = std::get_if<float>(&seed->second);
    const std::uint64_t own = real != nullptr ? std::bit_cast<std::uint32_t>(*real)
                                              : static_cast<std::uint64_t>(std::get<std::int64_t>(seed->second));
    return base::Philox(own, base::run_number(run));
  }
  if (const auto stream = attributes.find(ops::kStream); stream != attributes.end())
    return base::Philox(run, static_cast<std::uint64_t>(std::get<std::int64_t>(stream->second)));
  // For a node that no session prepared.
  std::uint64_t stream = 0xCBF29CE484222325;  // FNV-1a of the name
  for (const char c : context.node().name) stream = (stream ^ static_cast<std::uint8_t>(c)) * 0x100000001B3;
  for (const ir::ValueId output : context.node().outputs) {
    stream = (stream ^ static_cast<std::uint32_t>(output.index)) * 0x100000001B3;
  }
  return base::Philox(run, stream);
}

// The factor of Dropout on element `element`: 0, or 1 / (1 - ratio).
inline double dropout_factor(const base::Philox& random, double ratio, std::int64_t element) {
  const double number = base::philox_uniform_at(random.seed(), random.stream(), static_cast<std::uint64_t>(element));
  return number < ratio ? 0 : 1 / (1 - ratio);
}

// Writes seed and stream to a tensor of i64 [2]; read_random reads them back.
inline void write_random(const base::Philox& random, Tensor& to) {
  to.mutable_data<std::int64_t>()[0] = static_cast<std::int64_t>(random.seed());
  to.mutable_data<std::int64_t>()[1] = static_cast<std::int64_t>(random.stream());
}
inline base::Philox read_random(const Tensor& from) {
  return base::Philox(static_cast<std::uint64_t>(from.data<std::int64_t>()[0]),
                      static_cast<std::uint64_t>(from.data<std::int64_t>()[1]));
}

}  // namespace tessera::backends::host
