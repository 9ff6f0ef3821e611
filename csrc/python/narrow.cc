// Arguments of values in fewer bits.
#include "call.h"

namespace efl {
namespace {

void expect_blocks(const Args& a, const View& largest, efl_int64 values) {
    a.expect_shape(largest, {(values + 255) / 256});
}

using Narrow = efl_status (*)(const float*, efl_int64, efl_uint8*);
using Widen = efl_status (*)(const efl_uint8*, efl_int64, float*);

template <Narrow narrow>
Call to_halves(Args& a) {
    const View x = a.f32("x"), halves = a.typed<efl_uint8>("halves", Access::out, "uint8");
    a.expect_size(halves, 2 * x.size());
    return [=] { return narrow(x.in(), x.size(), halves.as<efl_uint8>()); };
}

template <Widen widen>
Call from_halves(Args& a) {
    const View halves = a.typed<efl_uint8>("halves", Access::in, "uint8"), x = a.f32("x", Access::out);
    a.expect_size(halves, 2 * x.size());
    return [=] { return widen(halves.as<efl_uint8>(), x.size(), x.out()); };
}

Call narrow_int8(Args& a) {
    const View x = a.f32("x"), noise = a.typed<efl_uint8>("noise", Access::in, "uint8"),
               largest = a.f32("largest", Access::out), codes = a.typed<efl_uint8>("codes", Access::out, "uint8");
    a.expect_size(noise, x.size());
    expect_blocks(a, largest, x.size());
    a.expect_size(codes, x.size());
    return [=] {
        return efl_narrow_int8_f32(x.in(), x.size(), noise.as<efl_uint8>(), largest.out(), codes.as<efl_uint8>());
    };
}

Call widen_int8(Args& a) {
    const View largest = a.f32("largest"), codes = a.typed<efl_uint8>("codes", Access::in, "uint8"),
               x = a.f32("x", Access::out);
    expect_blocks(a, largest, codes.size());
    a.expect_size(x, codes.size());
    return [=] { return efl_widen_int8_f32(largest.in(), codes.as<efl_uint8>(), codes.size(), x.out()); };
}

}  // namespace

const std::vector<Op> narrow_ops = {
    {.name = "narrow_float16", .make = to_halves<efl_narrow_float16_f32>},
    {.name = "widen_float16", .make = from_halves<efl_widen_float16_f32>},
    {.name = "narrow_bfloat16", .make = to_halves<efl_narrow_bfloat16_f32>},
    {.name = "widen_bfloat16", .make = from_halves<efl_widen_bfloat16_f32>},
    {.name = "narrow_int8", .make = narrow_int8},
    {.name = "widen_int8", .make = widen_int8},
};

}  // namespace efl
