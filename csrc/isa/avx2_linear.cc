#define EFL_PART "linear.h"
#include "avx2.h"
