// A launch that takes effect only if a word on the device says so. The host launches a kernel behind another that
// decides whether it is needed, and never waits to learn what was decided. Without GATED a kernel has no such argument.
#pragma once

#ifdef GATED
#define GATE , const unsigned int* gate
#define GATE_IS_CLOSED (*gate == 0)
#else
#define GATE
#define GATE_IS_CLOSED false
#endif
