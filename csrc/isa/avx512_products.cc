#define EFL_PART "products.h"
#include "avx512.h"
