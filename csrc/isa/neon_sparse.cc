#define EFL_PART "sparse.h"
#include "neon.h"
