// The sentence behind each efl_status.
#include "abi.h"

const char* efl_status_text(efl_status status) {
    switch (status) {
        case EFL_OK: return "ok";
        case EFL_BAD_SHAPE:
            return "an extent is negative, extents are too large together, or the geometry gives no output";
        case EFL_BAD_INDEX: return "ids are not sorted, not unique, or out of range";
        case EFL_BAD_ARGUMENT: return "an argument is outside its domain (see csrc/edgefl.h)";
        case EFL_NO_MEMORY: return "scratch memory could not be allocated";
        case EFL_BAD_ISA: return "this CPU or this build lacks the instruction set asked for";
        case EFL_BAD_STRUCTURE: return "structure is corrupt, or was made for another layer or another mask";
    }
    return "unknown status";
}
