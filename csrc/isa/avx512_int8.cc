#define EFL_PART "int8.h"
#define EFL_CODES "../simd/codes/avx512.h"
#include "avx512.h"
