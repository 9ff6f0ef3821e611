// The coordinates with the largest gradients: checks every argument, then calls the table.
#include "../core/check.h"
#include "../core/dispatch.h"

using namespace efl;

efl_status efl_keep_largest_f32(const float* grad, efl_int64 size, efl_int64 first, const efl_uint8* exists,
                                efl_int64 exists_bytes, efl_int64 count, float* magnitudes, efl_int32* places,
                                efl_int64 capacity, efl_int32* filled, float* smallest) {
    constexpr efl_int64 places_end = efl_int64(1) << 31;
    EFL_CHECK(single_extents({size, first, exists_bytes, count, capacity}));
    EFL_CHECK(pointers({grad, exists, magnitudes, places, filled, smallest}));
    if (count + 16 > capacity || first + size > 8 * exists_bytes || first + size > places_end) return EFL_BAD_SHAPE;
    if (first > 0 && (*filled < 0 || *filled > capacity)) return EFL_BAD_ARGUMENT;
    return table().keep_largest_f32(grad, size, first, exists, exists_bytes, count, magnitudes, places, capacity,
                                    filled, smallest);
}

efl_status efl_largest_places_f32(const float* magnitudes, const efl_int32* places, efl_int64 capacity,
                                  const efl_int32* filled, efl_int64 count, efl_int32* found) {
    EFL_CHECK(extents({capacity}));
    EFL_CHECK(extents({count}));
    EFL_CHECK(pointers({magnitudes, places, filled, found}));
    if (*filled < count || *filled > capacity) return EFL_BAD_ARGUMENT;
    return table().largest_places_f32(magnitudes, places, capacity, filled, count, found);
}
