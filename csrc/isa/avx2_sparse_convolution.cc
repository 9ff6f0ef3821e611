#define EFL_PART "sparse_convolution.h"
#include "avx2.h"
