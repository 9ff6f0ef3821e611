#define EFL_PART "sparse.h"
#include "avx2.h"
