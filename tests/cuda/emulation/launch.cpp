#include "emulation/launch.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "emulation/sanitizers.h"

namespace tessera::emulation {

void run_grid(const LaunchOptions& options, const std::function<void()>& body) {
  const sanitizers::Unwatched unwatched;
  const unsigned threads = options.block.count(), blocks = options.grid.count();
  if (threads == 0 || threads > 1024 || blocks == 0) {
    throw KernelFault("a launch of " + std::to_string(blocks) + " blocks of " + std::to_string(threads) +
                      " threads; a block has 1 to 1024, a grid at least one block");
  }
  if (options.dynamic_shared_bytes > options.shared_limit_bytes) {
    throw KernelFault("a launch with " + std::to_string(options.dynamic_shared_bytes) +
                      " bytes of dynamic shared memory; a block has " + std::to_string(options.shared_limit_bytes));
  }
  std::vector<unsigned> order(blocks);
  std::iota(order.begin(), order.end(), 0u);
  Block block(options);
  if (options.seed != 0) std::shuffle(order.begin(), order.end(), block.random());
  const unsigned x = options.grid.x, y = options.grid.y;
  for (const unsigned number : order) block.run({number % x, number / x % y, number / (x * y)}, body);
}

}  // namespace tessera::emulation
