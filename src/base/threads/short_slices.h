// The length of the time slices in which the system gives the calling thread a processor.
#pragma once

namespace tessera::base {

// Asks for slices of 0.1 ms, for which the system interrupts threads with longer ones. For threads that compute little
// and that others wait for: where other threads compute on all processors, such a thread would otherwise wait, each
// time that it wakes, until one of them has used up its slice, which takes some milliseconds. Threads that it starts
// inherit the short slices; those that compute ask for usual ones. Does nothing where the system has no such slices
// (Linux before 6.12).
void ask_for_short_slices();
// Gives the calling thread slices of the usual length again.
void ask_for_usual_slices();

}  // namespace tessera::base
