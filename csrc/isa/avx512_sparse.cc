#define EFL_PART "sparse.h"
#include "avx512.h"
