#include "train/run/memory_advice.h"

#include <limits>

#include "base/error.h"
#include "base/numbers/units.h"

namespace tessera::train {

std::string memory_advice(const ir::Graph& net, TrainingGraphOptions options, SessionOptions session,
                          const NamedValues& inputs, std::int64_t limit_bytes) {
  options.recompute_bytes = std::numeric_limits<std::int64_t>::max();
  const passes::RecomputeReport kept = make_training_graph(net, options).recompute;
  std::string text = fmt::format("A step keeps {} for the way back", base::format_bytes(kept.bytes_before));
  for (std::size_t i = 0; i < kept.largest.size(); ++i) {
    const auto& [name, bytes] = kept.largest[i];
    text += fmt::format("{}'{}' ({})", i == 0 ? ", the largest of it " : ", ", name, base::format_bytes(bytes));
  }
  session.memory_limit_bytes = 0;
  session.variables = nullptr;
  for (const double share : {0.7, 0.5, 0.35, 0.0}) {
    options.recompute_bytes =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(kept.bytes_before) * share));
    TrainingGraph made = make_training_graph(net, options);
    const double seconds = made.recompute.seconds;
    Session again(Model(std::make_shared<const ir::Graph>(std::move(made.graph))), session);
    const std::int64_t needed = again.plan_memory(inputs).arena_bytes + again.memory().variables_bytes;
    if (limit_bytes > 0 && needed > limit_bytes) continue;
    return text + fmt::format(". With train.recompute_bytes = {} it needs {} in all, and about {} more for a step.",
                              options.recompute_bytes, base::format_bytes(needed),
                              base::format_duration_ns(static_cast<std::int64_t>(seconds * 1e9)));
  }
  return text + ". Computing them again would not be enough: a smaller batch with train.accumulate may fit.";
}

}  // namespace tessera::train
