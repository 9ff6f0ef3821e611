// Attention: checks every argument, then calls the table.
#include "../core/check.h"
#include "../core/dispatch.h"

using namespace efl;

static efl_status geometry(const efl_attention& a) {
    EFL_CHECK(single_extents({a.batch, a.channels, a.places}));
    if (a.heads < 1 || a.channels % a.heads) return EFL_BAD_ARGUMENT;
    EFL_CHECK(extents({a.batch, 3, a.channels, a.places}));
    return extents({a.batch, a.heads, a.places, a.places});
}

efl_status efl_attention_forward_f32(const efl_attention* shape, const float* qkv, float* y, float* shares) {
    EFL_CHECK(pointers({shape, qkv, y}));
    EFL_CHECK(geometry(*shape));
    return table().attention_forward_f32(shape, qkv, y, shares);
}

efl_status efl_attention_backward_f32(const efl_attention* shape, const float* dy, const float* qkv,
                                      const float* shares, efl_index heads_needed, float* dqkv) {
    EFL_CHECK(pointers({shape, dy, qkv, shares, dqkv}));
    EFL_CHECK(geometry(*shape));
    EFL_CHECK(index(heads_needed, shape->heads));
    return table().attention_backward_f32(shape, dy, qkv, shares, heads_needed, dqkv);
}
