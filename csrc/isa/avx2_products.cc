#define EFL_PART "products.h"
#include "avx2.h"
