// Masked Linear layers: checks every argument, the structure included, then calls the table.
#include "../core/check.h"
#include "../core/dispatch.h"
#include "../core/sparse_linear.h"

using namespace efl;

namespace {

// A matrix of which `count` positions are kept, numbered by 32 bits.
efl_status matrix(efl_int64 out, efl_int64 in, efl_int64 count) {
    EFL_CHECK(extents({out, in}));
    EFL_CHECK(extents({count}));
    const efl_int64 positions = out * in, most = SparseLinear::MOST_SLOTS;
    const efl_int64 longest = out > in ? out : in;
    if (count > positions || positions > most || longest >= SparseLinear::MOST_ROWS) return EFL_BAD_SHAPE;
    return EFL_OK;
}

efl_status layer(const efl_uint32* structure, efl_int64 words, efl_int64 count, efl_int64 batch, efl_int64 in,
                 efl_int64 out) {
    EFL_CHECK(extents({batch, in, out}));
    EFL_CHECK(extents({words}));
    EFL_CHECK(matrix(out, in, count));
    return pointers({structure});
}

}  // namespace

efl_int64 efl_sparse_linear_words(efl_int64 out_features, efl_int64 in_features, efl_int64 count, efl_int64 batch,
                                  efl_int32 transposed) {
    if (batch < 0 || matrix(out_features, in_features, count) != EFL_OK) return -1;
    if (transposed) return plan_sparse_linear(in_features, out_features, count, batch).words();
    return plan_sparse_linear(out_features, in_features, count, batch).words();
}

efl_status efl_sparse_linear_build(const efl_uint8* mask, efl_int64 out_features, efl_int64 in_features,
                                   efl_int64 count, efl_int64 batch, efl_uint32* structure, efl_int64 words,
                                   efl_uint32* order, efl_uint32* structure_t, efl_int64 words_t, efl_uint32* order_t) {
    EFL_CHECK(extents({batch, out_features, in_features}));
    EFL_CHECK(extents({words}));
    EFL_CHECK(extents({words_t}));
    EFL_CHECK(matrix(out_features, in_features, count));
    EFL_CHECK(pointers({mask, structure, order}));
    if (!structure_t != !order_t) return EFL_BAD_ARGUMENT;
    if (words != efl_sparse_linear_words(out_features, in_features, count, batch, 0)) return EFL_BAD_SHAPE;
    if (structure_t && words_t != efl_sparse_linear_words(out_features, in_features, count, batch, 1))
        return EFL_BAD_SHAPE;
    return table().sparse_linear_build(mask, out_features, in_features, count, batch, structure, words, order,
                                       structure_t, words_t, order_t);
}

efl_status efl_sparse_linear_forward_f32(const efl_uint32* structure, efl_int64 words, const float* values,
                                         efl_int64 count, const float* x, const float* bias, efl_int64 batch,
                                         efl_int64 in_features, efl_int64 out_features, float* y) {
    EFL_CHECK(layer(structure, words, count, batch, in_features, out_features));
    EFL_CHECK(pointers({values, x, y}));
    EFL_CHECK(check_sparse_linear(structure, words, out_features, in_features, count, false));
    return table().sparse_linear_forward_f32(structure, words, values, count, x, bias, batch, in_features, out_features,
                                             y);
}

efl_status efl_sparse_linear_grad_input_f32(const efl_uint32* structure, efl_int64 words, const float* values,
                                            efl_int64 count, const float* dy, efl_int64 batch, efl_int64 in_features,
                                            efl_int64 out_features, float* dx) {
    EFL_CHECK(layer(structure, words, count, batch, in_features, out_features));
    EFL_CHECK(pointers({values, dy, dx}));
    if (words < SparseLinear::HEADER) return EFL_BAD_STRUCTURE;
    const bool turned = SparseLinear::is_transposed(structure);
    EFL_CHECK(check_sparse_linear(structure, words, turned ? in_features : out_features,
                                  turned ? out_features : in_features, count, turned));
    return table().sparse_linear_grad_input_f32(structure, words, values, count, dy, batch, in_features, out_features,
                                                dx);
}

efl_status efl_sparse_linear_grad_weight_f32(const efl_uint32* structure, efl_int64 words, const float* x,
                                             const float* dy, efl_int64 batch, efl_int64 in_features,
                                             efl_int64 out_features, float* gradients, efl_int64 count) {
    EFL_CHECK(layer(structure, words, count, batch, in_features, out_features));
    EFL_CHECK(pointers({x, dy, gradients}));
    EFL_CHECK(check_sparse_linear(structure, words, out_features, in_features, count, false));
    return table().sparse_linear_grad_weight_f32(structure, words, x, dy, batch, in_features, out_features, gradients,
                                                 count);
}
