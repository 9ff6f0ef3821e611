#define EFL_PART "convolution.h"
#include "neon.h"
