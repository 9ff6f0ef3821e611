#define EFL_PART "sparse.h"
#include "scalar.h"
