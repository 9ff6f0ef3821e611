#define EFL_PART "products.h"
#include "scalar.h"
