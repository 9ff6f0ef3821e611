// Values in fewer bits: checks every argument, then calls the table.
#include "../core/check.h"
#include "../core/dispatch.h"

using namespace efl;

efl_status efl_narrow_float16_f32(const float* x, efl_int64 n, efl_uint8* halves) {
    EFL_CHECK(extents({n}));
    EFL_CHECK(pointers({x, halves}));
    return table().narrow_float16_f32(x, n, halves);
}

efl_status efl_widen_float16_f32(const efl_uint8* halves, efl_int64 n, float* x) {
    EFL_CHECK(extents({n}));
    EFL_CHECK(pointers({halves, x}));
    return table().widen_float16_f32(halves, n, x);
}

efl_status efl_narrow_bfloat16_f32(const float* x, efl_int64 n, efl_uint8* halves) {
    EFL_CHECK(extents({n}));
    EFL_CHECK(pointers({x, halves}));
    return table().narrow_bfloat16_f32(x, n, halves);
}

efl_status efl_widen_bfloat16_f32(const efl_uint8* halves, efl_int64 n, float* x) {
    EFL_CHECK(extents({n}));
    EFL_CHECK(pointers({halves, x}));
    return table().widen_bfloat16_f32(halves, n, x);
}

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
