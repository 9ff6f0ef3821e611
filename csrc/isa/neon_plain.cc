#define EFL_PART "plain.h"
#include "neon.h"
