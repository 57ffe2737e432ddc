// Host kernels as kernels of a simulated device: they compute on a stream's thread, which can access the device's
// memory, and take the time that the device would take.
#pragma once

#include <memory>

#include "backends/backend.h"
#include "backends/simulated/machine.h"

namespace tessera::backends::simulated {

// Wraps the kernel that `entry`, an entry of the host device `computes_by`, creates for the node. `weights` keeps its
// packings in the device's memory; Error(failed) is thrown if they lie elsewhere. With Compute::none no kernel is
// created, and running only takes time.
KernelPointer make_simulated_kernel(SimulatedMachine& machine, const Device& computes_by, const KernelEntry& entry,
                                    const ops::NodeView& view, WeightStore& weights);

}  // namespace tessera::backends::simulated
