#define EFL_PART "int8.h"
#define EFL_CODES "../simd/codes/vnni.h"
#include "avx512_vnni.h"
