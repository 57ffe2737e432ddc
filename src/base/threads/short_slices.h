// How the system shares a processor out to this thread.
#pragma once

namespace tessera::base {

// For a thread that computes little and is waited for: asks the system to give it the processor in slices of 0.1 ms,
// for which it interrupts threads with longer ones. Else, where other threads compute on all processors, each time that
// it wakes it waits until one of them has used its slice up, which is some milliseconds. Threads that it starts inherit
// this, and those that compute ask for the usual ones. Does nothing where the system has no such slices (Linux before
// 6.12).
void ask_for_short_slices();
// Gives a thread with short slices those of the usual length again.
void ask_for_usual_slices();

}  // namespace tessera::base
