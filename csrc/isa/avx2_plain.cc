#define EFL_PART "plain.h"
#include "avx2.h"
