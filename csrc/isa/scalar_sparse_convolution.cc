#define EFL_PART "sparse_convolution.h"
#include "scalar.h"
