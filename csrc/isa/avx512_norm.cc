#define EFL_PART "norm.h"
#include "avx512.h"
