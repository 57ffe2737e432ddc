// Submission and execution of asynchronous operations.
//
// Nothing runs when it is submitted. A host call that has to see an effect runs what that effect depends on: with the
// seed 0 that alone, as late as is legal; with other seeds any operation of any stream whose turn has come, shuffled,
// until the effect is there.
#pragma once

#include "driver/simulator.h"

namespace tessera::cuda::driver {

// Appends work to a stream, or to the graph that the stream captures.
void submit(Simulator& simulator, StreamObject& stream, Work work);
// Appends to the queue of a stream that captures nothing.
void enqueue(Simulator& simulator, StreamObject& stream, decltype(Operation::what) what);
// A new marker behind everything that the stream has got so far.
MarkerPointer record(Simulator& simulator, StreamObject& stream);

// Runs operations until the marker is passed; then the host's clock is not before it.
void run_until(Simulator& simulator, const Marker& marker);
// Runs everything in the queues of one context, or of all.
void run_all(Simulator& simulator, const ContextObject* context);
// "Waits until the device has completed all operations in the stream". Returns the error that has spoilt the context.
void synchronize(Simulator& simulator, StreamObject& stream);

// Executes the work on the device at once. Throws Failure where the device faults.
void execute(Simulator& simulator, const Work& work, int device);
double duration_us(const Simulator& simulator, const Work& work);

}  // namespace tessera::cuda::driver
