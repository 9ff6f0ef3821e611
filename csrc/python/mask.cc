// Arguments of masks as bytes.
#include "call.h"

namespace efl {
namespace {

efl_int64 ones_of(Args& a, efl_int64 ones, efl_int64 n) {
    if (ones < 0 || ones > n) a.refuse("ones", "value " + std::to_string(ones), "0 to " + std::to_string(n));
    return ones;
}

Call encode_mask(Args& a) {
    const View bits = a.typed<efl_uint8>("bits", Access::in, "uint8");
    const efl_int64 ones = ones_of(a, a.integer("ones"), bits.size()), room = 16 + (bits.size() + 7) / 8 * 4;
    const View code = a.typed<efl_uint8>("code", Access::out, "uint8"),
               size = a.typed<efl_int64>("size", Access::out, "int64");
    a.expect_dims(code, 1, 1);
    a.expect_shape(size, {1});
    if (code.size() < room)
        a.refuse("code", "shape " + text(code.shape), "at least " + std::to_string(room) + " bytes");
    return [=] {
        return efl_encode_mask(bits.as<efl_uint8>(), bits.size(), ones, code.as<efl_uint8>(), code.size(),
                               size.as<efl_int64>());
    };
}

Call decode_mask(Args& a) {
    const View code = a.typed<efl_uint8>("code", Access::in, "uint8");
    const efl_int64 ones = a.integer("ones");
    const View bits = a.typed<efl_uint8>("bits", Access::out, "uint8"),
               size = a.typed<efl_int64>("size", Access::out, "int64");
    a.expect_dims(code, 1, 1);
    a.expect_shape(size, {1});
    ones_of(a, ones, bits.size());
    return [=] {
        return efl_decode_mask(code.as<efl_uint8>(), code.size(), ones, bits.as<efl_uint8>(), bits.size(),
                               size.as<efl_int64>());
    };
}

}  // namespace

const std::vector<Op> mask_ops = {
    {.name = "encode_mask", .make = encode_mask},
    {.name = "decode_mask", .make = decode_mask},
};

}  // namespace efl
