#define EFL_PART "linear.h"
#include "neon.h"
