#define EFL_PART "weight_gradient.h"
#include "avx512.h"
