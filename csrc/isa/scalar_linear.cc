#define EFL_PART "linear.h"
#include "scalar.h"
