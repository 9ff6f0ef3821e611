#define EFL_PART "pool.h"
#include "avx512.h"
