#define EFL_PART "int8.h"
#define EFL_CODES "../simd/codes/avx2.h"
#include "avx2.h"
