#define EFL_PART "plain.h"
#include "avx512.h"
