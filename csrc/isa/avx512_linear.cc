#define EFL_PART "linear.h"
#include "avx512.h"
