// The table of kernels in use: a pointer per row of kernels.h, with efl_<name>'s arguments, already checked by api/.
//
// An instruction set's install() overwrites entries. The ladder runs from the baseline up to what this CPU and the cap
// allow, so an instruction set needs to bring only the kernels it does better. The table changes at load and in
// efl_cap_isa, nowhere else.
#pragma once
#include "abi.h"

namespace efl {

struct Table {
#define EFL_KERNEL(name) decltype(&efl_##name) name;
#include "kernels.h"
#undef EFL_KERNEL
};

// The kernels in use. Read-only outside cpu.cc.
const Table& table();

}  // namespace efl
