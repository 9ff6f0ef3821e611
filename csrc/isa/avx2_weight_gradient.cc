#define EFL_PART "weight_gradient.h"
#include "avx2.h"
