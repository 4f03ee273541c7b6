// A launch that takes effect only if a word in device memory says so. The host launches the kernel after another one
// that decides whether it is needed, and does not wait for the decision. Without GATED a kernel has no such argument.
#pragma once

#ifdef GATED
#define GATE , const unsigned int* gate
#define GATE_IS_CLOSED (*gate == 0)
#else
#define GATE
#define GATE_IS_CLOSED false
#endif
