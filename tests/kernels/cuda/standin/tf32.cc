// TF32 on the host, see emulate.h. Products of two rounded inputs are exact in float; a sum takes its eight one after
// another. A GPU adds them in an order and with a rounding of its own, which its makers do not tell.
#include "emulate.h"

namespace emulate {
namespace {

struct Fragments {
    float *above, *below;  // the sums
    const float *left, *right;
};

// Fragments as the PTX ISA has them: of the warp's lane with group g and place t in it.
void multiply(void* const* brought) {
    float left[16][8], right[8][8];
    for (unsigned lane = 0; lane < WARP; ++lane) {
        const Fragments& of = *static_cast<const Fragments*>(brought[lane]);
        const unsigned g = lane / 4, t = lane % 4;
        for (unsigned i = 0; i < 4; ++i) left[i % 2 ? g + 8 : g][i < 2 ? t : t + 4] = of.left[i];
        for (unsigned i = 0; i < 2; ++i) right[i ? t + 4 : t][g] = of.right[i];
    }
    for (unsigned lane = 0; lane < WARP; ++lane) {
        const Fragments& of = *static_cast<const Fragments*>(brought[lane]);
        for (unsigned i = 0; i < 4; ++i) {
            const unsigned row = lane / 4 + (i < 2 ? 0 : 8), column = lane % 4 * 2 + i % 2;
            float& sum = (i < 2 ? of.above : of.below)[i % 2];
            for (unsigned k = 0; k < 8; ++k) sum = fmaf(left[row][k], right[k][column], sum);
        }
    }
}

unsigned bits_of(float value) {
    unsigned bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

// What mma reads of a register: not its last 13 bits.
float as_read(float value) {
    const unsigned bits = bits_of(value) & ~0x1fffu;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

}  // namespace

// cvt.rna.tf32.f32: to the nearest, of two as near the larger in size; beyond the largest lies infinity.
float rounded_to_tf32(float value) {
    unsigned bits = bits_of(value);
    if (std::isnan(value))
        bits = 0x7fffffffu;
    else if (!std::isinf(value))
        bits = (bits + 0x1000u) & ~0x1fffu;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

void multiply_m16n8k8(float (&above)[2], float (&below)[2], const float (&left)[4], const float (&right)[2]) {
    const float l[4] = {as_read(left[0]), as_read(left[1]), as_read(left[2]), as_read(left[3])};
    const float r[2] = {as_read(right[0]), as_read(right[1])};
    Fragments mine{above, below, l, r};
    meet(&mine, multiply);
}

}  // namespace emulate
