#define EFL_PART "pool.h"
#include "avx2.h"
