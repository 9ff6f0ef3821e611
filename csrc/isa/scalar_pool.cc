#define EFL_PART "pool.h"
#include "scalar.h"
