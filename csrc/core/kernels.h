// The kernels, one row each: efl_<name> of edgefl.h, its entry in the table and its body in kernels/<family>. The rows
// are generated (csrc/generate.py), and read several times, with EFL_KERNEL defined by the reader. Divided as an
// instruction set is compiled, so that a change in one part leaves the others' objects as they are and several
// compilers work side by side.
#include "kernels/plain.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "kernels/pool.h"
#include "kernels/convolution.h"
#include "kernels/sparse.h"
#include "kernels/sparse_convolution.h"
#include "kernels/int8.h"
