#define EFL_PART "norm.h"
#include "scalar.h"
