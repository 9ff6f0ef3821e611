// Masked convolution: checks every argument and what the structures say, then calls the table.
#include "../core/sparse_convolution.h"

#include "../core/check.h"
#include "../core/dispatch.h"

using namespace efl;

// A layer that can have structures of so many weights.
static efl_status layer(const efl_conv2d& conv, efl_int64 count) {
    EFL_CHECK(geometry(conv));
    EFL_CHECK(single_extents({count}));
    return sparse_fits(SparseLayout(conv, count, false));
}

static efl_status structure(const efl_conv2d& conv, efl_int64 count, bool transposed, const efl_uint32* given,
                            efl_int64 words) {
    const SparseLayout layout(conv, count, transposed);
    EFL_CHECK(sparse_fits(layout));
    if (words != layout.words) return EFL_BAD_SHAPE;
    return sparse_check(layout, given);
}

// Images side by side fill whole words.
static efl_status lanes(const efl_conv2d& conv, efl_int64 x_lanes, efl_int64 y_lanes) {
    for (const efl_int64 n : {x_lanes, y_lanes}) {
        if (n != 1 && n != efl_sparse_conv2d_lanes()) return EFL_BAD_ARGUMENT;
        if (conv.batch % n) return EFL_BAD_SHAPE;
    }
    return EFL_OK;
}

efl_int64 efl_sparse_conv2d_lanes(void) { return table().sparse_conv2d_lanes(); }

efl_int64 efl_sparse_conv2d_words(const efl_conv2d* conv, efl_int64 count, efl_int32 transposed) {
    if (!conv || layer(*conv, count)) return -1;
    const SparseLayout layout(*conv, count, transposed != 0);
    return sparse_fits(layout) ? -1 : layout.words;
}

efl_status efl_sparse_conv2d_build(const efl_conv2d* conv, const efl_uint8* mask, efl_int64 count,
                                   efl_uint32* structure, efl_int64 words, efl_uint32* order, efl_uint32* structure_t,
                                   efl_int64 words_t, efl_uint32* order_t) {
    EFL_CHECK(pointers({conv, mask, structure, order, structure_t, order_t}));
    EFL_CHECK(layer(*conv, count));
    const SparseLayout forward(*conv, count, false), transposed(*conv, count, true);
    EFL_CHECK(sparse_fits(transposed));
    if (words != forward.words || words_t != transposed.words) return EFL_BAD_SHAPE;
    return table().sparse_conv2d_build(conv, mask, count, structure, words, order, structure_t, words_t, order_t);
}

efl_status efl_sparse_conv2d_forward_f32(const efl_conv2d* conv, const efl_uint32* structure_, efl_int64 words,
                                         const float* values, efl_int64 count, const float* x, const float* bias,
                                         float* y, efl_int64 x_lanes, efl_int64 y_lanes) {
    EFL_CHECK(pointers({conv, structure_, values, x, y}));
    EFL_CHECK(layer(*conv, count));
    EFL_CHECK(lanes(*conv, x_lanes, y_lanes));
    EFL_CHECK(structure(*conv, count, false, structure_, words));
    return table().sparse_conv2d_forward_f32(conv, structure_, words, values, count, x, bias, y, x_lanes, y_lanes);
}

efl_status efl_sparse_conv2d_grad_input_f32(const efl_conv2d* conv, const efl_uint32* structure_t, efl_int64 words_t,
                                            const float* values_t, efl_int64 count, const float* dy, float* dx,
                                            efl_int64 x_lanes, efl_int64 y_lanes) {
    EFL_CHECK(pointers({conv, structure_t, values_t, dy, dx}));
    EFL_CHECK(layer(*conv, count));
    EFL_CHECK(lanes(*conv, x_lanes, y_lanes));
    EFL_CHECK(structure(*conv, count, true, structure_t, words_t));
    return table().sparse_conv2d_grad_input_f32(conv, structure_t, words_t, values_t, count, dy, dx, x_lanes, y_lanes);
}

efl_status efl_sparse_conv2d_grad_weight_f32(const efl_conv2d* conv, const efl_uint32* structure_, efl_int64 words,
                                             const float* x, const float* dy, float* gradients, efl_int64 count,
                                             efl_int64 x_lanes, efl_int64 y_lanes) {
    EFL_CHECK(pointers({conv, structure_, x, dy, gradients}));
    EFL_CHECK(layer(*conv, count));
    EFL_CHECK(lanes(*conv, x_lanes, y_lanes));
    EFL_CHECK(structure(*conv, count, false, structure_, words));
    return table().sparse_conv2d_grad_weight_f32(conv, structure_, words, x, dy, gradients, count, x_lanes, y_lanes);
}
