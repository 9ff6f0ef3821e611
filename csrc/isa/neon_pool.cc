#define EFL_PART "pool.h"
#include "neon.h"
