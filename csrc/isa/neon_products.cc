#define EFL_PART "products.h"
#include "neon.h"
