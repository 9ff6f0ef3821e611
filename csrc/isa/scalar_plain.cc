#define EFL_PART "plain.h"
#include "scalar.h"
