#define EFL_PART "sparse_convolution.h"
#include "avx512.h"
