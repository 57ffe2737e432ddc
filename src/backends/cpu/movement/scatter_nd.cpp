// ScatterND without a reduction, of elements of whole bytes: the data is copied, or written over in place, and runs of
// it are replaced one after the other, so that the last of equal indices wins.
#include <algorithm>
#include <cstring>

#include "backends/cpu/movement/kernels.h"
#include "backends/cpu/movement/movement.h"
#include "base/error.h"

namespace tessera::backends::cpu {
namespace {

constexpr std::int64_t kBytesAChunk = 256 * 1024;

}  // namespace

std::string reject_scatter_nd(const ops::NodeView& view) {
  if (view.text("reduction") != "none") return "replaces, and joins nothing";
  return reject_unless_bytes(view);
}

void scatter_nd(KernelContext& context) {
  const Tensor &data = context.input(0), &indices = context.input(1), &updates = context.input(2);
  const Shape& shape = data.shape();
  const std::int64_t depth = indices.rank() > 0 ? indices.shape().back() : 0;
  require(depth >= 1 && depth <= data.rank(), ErrorKind::invalid_model, "an index has {} parts, but data is {}", depth,
          to_string(shape));
  Shape wanted(indices.shape().begin(), indices.shape().end() - 1);
  wanted.insert(wanted.end(), shape.begin() + depth, shape.end());
  require(updates.shape() == wanted, ErrorKind::invalid_model, "updates has shape {}, expected {}",
          to_string(updates.shape()), to_string(wanted));
  const auto* from = static_cast<const std::byte*>(data.raw());
  const auto* replacement = static_cast<const std::byte*>(updates.raw());
  auto* to = static_cast<std::byte*>(context.output(0).mutable_raw());
  std::vector<std::byte> kept;
  if (from != to) {
    context.parallel_for(data.bytes(), kBytesAChunk, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
    });
  } else if (replacement == to && updates.bytes() > 0) {
    kept.assign(replacement, replacement + updates.bytes());
    replacement = kept.data();
  }
  std::int64_t run = bits_of(data.dtype()) / 8;
  for (std::size_t i = shape.size(); i-- > static_cast<std::size_t>(depth);) run *= shape[i];
  const std::int64_t* part = indices.data<std::int64_t>();
  const std::int64_t tuples = indices.elements() / depth;
  for (std::int64_t tuple = 0; tuple < tuples; ++tuple) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(depth); ++i)
      at = at * shape[i] + checked_index(*part++, shape[i]);
    std::memcpy(to + at * run, replacement + tuple * run, static_cast<std::size_t>(run));
  }
}

}  // namespace tessera::backends::cpu
