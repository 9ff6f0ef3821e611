// Gather and scatter of parameters: checks every argument, then calls the table.
#include "../core/check.h"
#include "../core/dispatch.h"

using namespace efl;

efl_status efl_take_axes_32(const void* w, efl_int64 n_rows, efl_int64 n_cols, efl_int64 inner, efl_index rows,
                            efl_index cols, void* values) {
    EFL_CHECK(extents({n_rows, n_cols, inner}));
    EFL_CHECK(pointers({w, values}));
    EFL_CHECK(index(rows, n_rows));
    EFL_CHECK(index(cols, n_cols));
    return table().take_axes_32(w, n_rows, n_cols, inner, rows, cols, values);
}

efl_status efl_put_axes_32(void* w, efl_int64 n_rows, efl_int64 n_cols, efl_int64 inner, efl_index rows, efl_index cols,
                           const void* values) {
    EFL_CHECK(extents({n_rows, n_cols, inner}));
    EFL_CHECK(pointers({w, values}));
    EFL_CHECK(index(rows, n_rows));
    EFL_CHECK(index(cols, n_cols));
    return table().put_axes_32(w, n_rows, n_cols, inner, rows, cols, values);
}

efl_status efl_take_flat_32(const void* w, efl_int64 size, const efl_uint32* ids, efl_int64 count, void* values) {
    EFL_CHECK(extents({size}));
    EFL_CHECK(extents({count}));
    EFL_CHECK(pointers({w, ids, values}));
    EFL_CHECK(sorted_ids(ids, count, size));
    return table().take_flat_32(w, size, ids, count, values);
}

efl_status efl_put_flat_32(void* w, efl_int64 size, const efl_uint32* ids, efl_int64 count, const void* values) {
    EFL_CHECK(extents({size}));
    EFL_CHECK(extents({count}));
    EFL_CHECK(pointers({w, ids, values}));
    EFL_CHECK(sorted_ids(ids, count, size));
    return table().put_flat_32(w, size, ids, count, values);
}

efl_status efl_permute_f32(const float* values, const efl_uint32* order, efl_int64 count, float* permuted) {
    EFL_CHECK(extents({count}));
    EFL_CHECK(pointers({values, order, permuted}));
    return table().permute_f32(values, order, count, permuted);
}
