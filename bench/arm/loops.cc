// The inner products of the NEON tier, a function each, for bench/arm/mca.py to compile, to find their loops and to
// count these loops' cycles on the models of cores. Nothing links it.
#define EFL_PART "../../bench/arm/loops.h"
#include "../../csrc/isa/neon.h"
