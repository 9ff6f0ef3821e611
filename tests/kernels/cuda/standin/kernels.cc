// The kernels of csrc/cuda, as the emulation runs them. Where they are watched (watch.h), this file alone is
// instrumented.
#include "emulate.h"

#include "kernels.cu"
