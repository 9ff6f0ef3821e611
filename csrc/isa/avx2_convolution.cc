#define EFL_PART "convolution.h"
#include "avx2.h"
