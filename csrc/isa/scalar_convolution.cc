#define EFL_PART "convolution.h"
#include "scalar.h"
