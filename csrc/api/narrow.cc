// Values as bytes with a scale for every 256: checks every argument, then calls the table.
#include "../core/check.h"
#include "../core/dispatch.h"

using namespace efl;

efl_status efl_narrow_int8_f32(const float* x, efl_int64 n, const efl_uint8* noise, float* largest, efl_uint8* codes) {
    EFL_CHECK(extents({n}));
    EFL_CHECK(pointers({x, noise, largest, codes}));
    return table().narrow_int8_f32(x, n, noise, largest, codes);
}

efl_status efl_widen_int8_f32(const float* largest, const efl_uint8* codes, efl_int64 n, float* x) {
    EFL_CHECK(extents({n}));
    EFL_CHECK(pointers({largest, codes, x}));
    return table().widen_int8_f32(largest, codes, n, x);
}
