#define EFL_PART "norm.h"
#include "neon.h"
