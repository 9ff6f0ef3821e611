#define EFL_PART "convolution.h"
#include "avx512.h"
