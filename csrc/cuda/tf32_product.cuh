// Products of tiles in TF32: inputs rounded to 10 bits behind the leading one, multiplied by tensor cores a warp at a
// time, summed in fp32. No kernels: tf32.cuh has them. Below compute capability 8.0 there is nothing of this.
//
// Values are rounded when they are put into shared memory, where each is put once and from where several warps read it;
// mma reads what is there as it is. Layout of its fragments: PTX ISA, matrix fragments for mma.m16n8k8, .tf32.
#pragma once
#include "portable.cuh"

#if !defined(__CUDACC__) || __CUDA_ARCH__ >= 800
#define EFL_HAS_TF32

namespace tf32 {

#ifdef __CUDACC__
// To the nearest; of two as near, the larger in size.
EFL_DEVICE float rounded(float value) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return __uint_as_float(bits);
}

// A warp's sums [16, 8] += left [16, 8] right [8, 8]. With g = lane / 4, t = lane % 4 a thread has the sums of rows g
// and g + 8 in columns 2t and 2t + 1; of left these rows at depth t, then at t + 4; of right column g, at both depths.
EFL_DEVICE void multiply(float (&above)[2], float (&below)[2], const float (&left)[4], const float (&right)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(above[0]), "+f"(above[1]), "+f"(below[0]), "+f"(below[1])
        : "r"(__float_as_uint(left[0])), "r"(__float_as_uint(left[1])), "r"(__float_as_uint(left[2])),
          "r"(__float_as_uint(left[3])), "r"(__float_as_uint(right[0])), "r"(__float_as_uint(right[1])));
}
#else
EFL_DEVICE float rounded(float value) { return emulate::rounded_to_tf32(value); }
EFL_DEVICE void multiply(float (&above)[2], float (&below)[2], const float (&left)[4], const float (&right)[2]) {
    emulate::multiply_m16n8k8(above, below, left, right);
}
#endif

// COUNT neighbours in shared memory, 1 or 4.
template <int COUNT>
EFL_DEVICE void read(const float* from, float* to) {
    static_assert(COUNT == 1 || COUNT == 4, "1 or 4");
    if constexpr (COUNT == 4) read_four(from, to);
    else *to = *from;
}

// A thread's TALL x WIDE of a block's sums, ROWS high. A warp's are 8 TALL x 4 WIDE, in tiles of 16 x 8, whose rows and
// columns are spread so that what a thread reads at once lies side by side: DOWN rows, ACROSS columns; 1 or 4.
// APART: between the depths of neighbouring t; such that 4 t and 8 g meet no bank of shared memory twice.
template <int ROWS, int TALL_, int WIDE_, int DOWN, int ACROSS, int APART>
struct Warp {
    static constexpr int TALL = TALL_, WIDE = WIDE_, WARPS_DOWN = ROWS / (8 * TALL);
    static_assert(TALL % 2 == 0 && TALL % DOWN == 0 && WIDE % (2 * ACROSS) == 0, "whole tiles of 16 x 8");

    EFL_DEVICE float kept(float value) { return rounded(value); }

    EFL_DEVICE int row(int i) { return first_row() + i / DOWN * 8 * DOWN + lane() / 4 * DOWN + i % DOWN; }
    EFL_DEVICE int column(int j) {
        return first_column() + j / (2 * ACROSS) * 8 * ACROSS + lane() % 4 * 2 * ACROSS + j % (2 * ACROSS);
    }

    // sum += left [DEPTH][LEFT_PITCH] right [DEPTH][RIGHT_PITCH], which lie in shared memory.
    template <int DEPTH, int LEFT_PITCH, int RIGHT_PITCH>
    EFL_DEVICE void add(const float* left, const float* right, float (&sum)[TALL][WIDE]) {
        static_assert(APART * LEFT_PITCH % 32 == 8 && APART * RIGHT_PITCH % 32 == 8, "banks are met twice");
        left += lane() % 4 * APART * LEFT_PITCH + first_row() + lane() / 4 * DOWN;
        right += lane() % 4 * APART * RIGHT_PITCH + first_column() + lane() / 4 * ACROSS;
        EFL_ROLLED
        for (int k = 0; k < DEPTH; k += 8) {
            // Of 4 APART depths the first APART, from `left` on, are this thread's: it takes two of them at a time.
            const int first = k / (4 * APART) * 4 * APART + k % (4 * APART) / 4;
            add_eight<LEFT_PITCH, RIGHT_PITCH>(left + first * LEFT_PITCH, right + first * RIGHT_PITCH, sum);
        }
    }

private:
    EFL_DEVICE int lane() { return int(threadIdx.x) % 32; }
    EFL_DEVICE int first_row() { return int(threadIdx.x) / 32 % WARPS_DOWN * 8 * TALL; }
    EFL_DEVICE int first_column() { return int(threadIdx.x) / 32 / WARPS_DOWN * 4 * WIDE; }

    template <int LEFT_PITCH, int RIGHT_PITCH>
    EFL_DEVICE void add_eight(const float* left, const float* right, float (&sum)[TALL][WIDE]) {
        float rows[2][TALL];  // at the two depths
        EFL_UNROLL
        for (int i = 0; i < TALL; i += DOWN) {
            read<DOWN>(left + i * 8, rows[0] + i);
            read<DOWN>(left + i * 8 + LEFT_PITCH, rows[1] + i);
        }
        EFL_UNROLL
        for (int j = 0; j < WIDE; j += 2 * ACROSS) {
            float columns[2][ACROSS];
            read<ACROSS>(right + j * 4, columns[0]);
            read<ACROSS>(right + j * 4 + RIGHT_PITCH, columns[1]);
            EFL_UNROLL
            for (int i = 0; i < TALL; i += 2) {
                EFL_UNROLL
                for (int n = 0; n < ACROSS; ++n) {
                    float above[2] = {sum[i][j + n], sum[i][j + n + ACROSS]};
                    float below[2] = {sum[i + 1][j + n], sum[i + 1][j + n + ACROSS]};
                    const float l[4] = {rows[0][i], rows[0][i + 1], rows[1][i], rows[1][i + 1]};
                    const float r[2] = {columns[0][n], columns[1][n]};
                    multiply(above, below, l, r);
                    sum[i][j + n] = above[0], sum[i][j + n + ACROSS] = above[1];
                    sum[i + 1][j + n] = below[0], sum[i + 1][j + n + ACROSS] = below[1];
                }
            }
        }
    }
};

}  // namespace tf32
#endif
