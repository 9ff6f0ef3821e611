#define EFL_PART "weight_gradient.h"
#include "scalar.h"
