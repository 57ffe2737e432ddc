#include "backends/asynchronous.h"

namespace tessera::backends {

void AsynchronousKernel::run(KernelContext& context) const {
  const std::unique_ptr<PendingWork> work = begin(context);
  while (!work->wait_for(kPendingPatience)) context.check_stop();
}

}  // namespace tessera::backends
