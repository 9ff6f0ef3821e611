#define EFL_PART "norm.h"
#include "avx2.h"
