// Arguments of values as bytes.
#include "call.h"

namespace efl {
namespace {

void expect_blocks(const Args& a, const View& largest, efl_int64 values) {
    a.expect_shape(largest, {(values + 255) / 256});
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
    {.name = "narrow_int8", .make = narrow_int8},
    {.name = "widen_int8", .make = widen_int8},
};

}  // namespace efl
