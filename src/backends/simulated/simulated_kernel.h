// Host kernels as kernels of a simulated device: they compute on a stream's thread, which can access the device's
// memory, and take the time that the device would take.
#pragma once

#include <memory>

#include "backends/backend.h"
#include "backends/device_copies.h"
#include "backends/simulated/machine.h"

namespace tessera::backends::simulated {

// Wraps the kernel that `entry`, an entry of the host device `computes_by`, creates for the node. Packed weights are
// copied to the device's memory; `copies` outlives the kernel. With Compute::none no kernel is created, and running
// only takes time.
KernelPointer make_simulated_kernel(SimulatedMachine& machine, DeviceCopies& copies, const Device& computes_by,
                                    const KernelEntry& entry, const ops::NodeView& view, WeightStore& weights);

}  // namespace tessera::backends::simulated
