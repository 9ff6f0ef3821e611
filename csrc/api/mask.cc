// Masks as bytes: checks every argument, then calls the table.
#include "../core/check.h"
#include "../core/dispatch.h"

using namespace efl;

namespace {

constexpr efl_int64 MOST_BITS = efl_int64(1) << 40;  // densities are computed in 64 bits

efl_status counts(efl_int64 n, efl_int64 ones, efl_int64 room) {
    EFL_CHECK(single_extents({n, room}));
    if (n > MOST_BITS) return EFL_BAD_SHAPE;
    return ones < 0 || ones > n ? EFL_BAD_ARGUMENT : EFL_OK;
}

}  // namespace

efl_status efl_encode_mask(const efl_uint8* bits, efl_int64 n, efl_int64 ones, efl_uint8* code, efl_int64 room,
                           efl_int64* size) {
    EFL_CHECK(counts(n, ones, room));
    EFL_CHECK(pointers({bits, code, size}));
    if (room < 16 + (n + 7) / 8 * 4) return EFL_BAD_ARGUMENT;
    return table().encode_mask(bits, n, ones, code, room, size);
}

efl_status efl_decode_mask(const efl_uint8* code, efl_int64 room, efl_int64 ones, efl_uint8* bits, efl_int64 n,
                           efl_int64* size) {
    EFL_CHECK(counts(n, ones, room));
    EFL_CHECK(pointers({code, bits, size}));
    return table().decode_mask(code, room, ones, bits, n, size);
}
