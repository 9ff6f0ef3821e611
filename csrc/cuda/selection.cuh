// The largest of a list of magnitudes, found digit by digit of their bits, by one block. No kernels: growth.cuh and
// ranking.cuh have them. Magnitudes are not negative, so that they are ordered as their bits are, which are an int
// here.
//
// Each thread counts in a column of its own, so that nothing is added atomically; sums of whole numbers have no order.
#pragma once
#include "portable.cuh"

namespace growth {

constexpr int SELECT_THREADS = 256;
constexpr int DIGIT_BITS = 5, DIGITS = 1 << DIGIT_BITS;
constexpr int SUMS_OF_DIGIT = SELECT_THREADS / DIGITS;
constexpr int INFINITE = 0x7f800000;  // the bits of infinity
constexpr int NONE = -1;              // the bits of no magnitude: with the sign's
constexpr int ON_THEIR_WAY = 8;       // loads of a thread at once

// What is known of the cut, the smallest of the `rank` largest: its bits from `shift` on, and what rank it has among
// the values that share them.
struct Cut {
    int bits, shift, rank;
};

EFL_DEVICE Cut unknown_cut(int rank) { return {0, 31, rank}; }
EFL_DEVICE int next_shift(int shift) { return larger(shift - DIGIT_BITS, 0); }

struct SelectMemory {
    int counts[DIGITS][SELECT_THREADS];
    int sums[SELECT_THREADS];  // SUMS_OF_DIGIT for each digit
    Size scan[2][SELECT_THREADS];
};

// Counts the next digit of the values [first, last) that share the cut's bits. The sums are complete after a barrier.
EFL_DEVICE void count_digits(const int* values, int first, int last, const Cut& cut, SelectMemory& memory) {
    const int thread = int(threadIdx.x), shift = next_shift(cut.shift);
    const int known = int(~0u << cut.shift);
    EFL_ROLLED
    for (int digit = 0; digit < DIGITS; ++digit) memory.counts[digit][thread] = 0;
    EFL_ROLLED
    for (int at = first + thread; at < last; at += ON_THEIR_WAY * SELECT_THREADS) {
        int some[ON_THEIR_WAY];
        EFL_UNROLL
        for (int j = 0; j < ON_THEIR_WAY; ++j)
            some[j] = at + j * SELECT_THREADS < last ? values[at + j * SELECT_THREADS] : NONE;
        EFL_UNROLL
        for (int j = 0; j < ON_THEIR_WAY; ++j)
            if ((some[j] & known) == cut.bits) ++memory.counts[(some[j] & ~known) >> shift][thread];
    }
    barrier();
    constexpr int COLUMNS = SELECT_THREADS / SUMS_OF_DIGIT;
    const int* const counts = memory.counts[thread / SUMS_OF_DIGIT] + thread % SUMS_OF_DIGIT * COLUMNS;
    int sum = 0;
    EFL_ROLLED
    for (int i = 0; i < COLUMNS; ++i) sum += counts[(i + thread) % COLUMNS];  // each thread in another bank
    memory.sums[thread] = sum;
}

EFL_DEVICE int count_of_digit(const SelectMemory& memory, int digit) {
    int count = 0;
    EFL_ROLLED
    for (int i = 0; i < SUMS_OF_DIGIT; ++i) count += memory.sums[digit * SUMS_OF_DIGIT + i];
    return count;
}

// The cut with one digit more, which the sums tell.
EFL_DEVICE Cut with_digit(const Cut& cut, const SelectMemory& memory) {
    int digit = DIGITS - 1, rank = cut.rank;
    EFL_ROLLED
    for (; digit > 0; --digit) {
        const int count = count_of_digit(memory, digit);
        if (rank <= count) break;
        rank -= count;
    }
    const int shift = next_shift(cut.shift);
    return {cut.bits | digit << shift, shift, rank};
}

// The sum of the values of the threads before this one, and of all. A barrier has to follow before another scan.
struct Scanned {
    Size before, all;
};

EFL_DEVICE Scanned scanned(Size value, SelectMemory& memory) {
    const int thread = int(threadIdx.x);
    int turn = 0;
    Size sum = value;
    memory.scan[0][thread] = sum;
    EFL_ROLLED
    for (int step = 1; step < SELECT_THREADS; step *= 2, turn ^= 1) {
        barrier();
        if (thread >= step) sum += memory.scan[turn][thread - step];
        memory.scan[turn ^ 1][thread] = sum;
    }
    barrier();
    return {sum - value, memory.scan[turn][SELECT_THREADS - 1]};
}

// ---- those from the cut on, in order -------------------------------------------------------------------------------

constexpr int EACH = 8;  // neighbours that a thread looks at together
constexpr int SELECT_TILE = EACH * SELECT_THREADS;

// How many are larger than the cut, and how many equal it: in the lower and upper 32 bits.
EFL_DEVICE Size compared(int value, int cut) { return Size(value > cut) + (Size(value == cut) << 32); }

// How many of those counted are kept: all that are larger, and of equal ones the first `rank`.
EFL_DEVICE int kept_of(Size counted, int rank) { return int(counted & 0xffffffff) + smaller(int(counted >> 32), rank); }

// Writes those of the values [first, last) that are kept to `to`, which may be where they are; `before`: what was
// counted in front of them.
EFL_DEVICE void keep(const Ranked& from, int first, int last, const Cut& cut, Size before, const Ranked& to,
                     SelectMemory& memory) {
    EFL_ROLLED
    for (; first < last; first += SELECT_TILE) {
        int magnitudes[EACH], positions[EACH];
        Size counted = 0;
        EFL_UNROLL
        for (int j = 0; j < EACH; ++j) {
            const int at = first + int(threadIdx.x) * EACH + j;
            magnitudes[j] = at < last ? from.magnitudes[at] : NONE;
            positions[j] = at < last ? from.positions[at] : 0;
            counted += compared(magnitudes[j], cut.bits);
        }
        const Scanned scan = scanned(counted, memory);
        Size seen = before + scan.before;
        EFL_UNROLL
        for (int j = 0; j < EACH; ++j) {
            const int at = kept_of(seen, cut.rank);
            seen += compared(magnitudes[j], cut.bits);
            if (kept_of(seen, cut.rank) == at) continue;
            if (to.magnitudes) to.magnitudes[at] = magnitudes[j];
            to.positions[at] = positions[j];
        }
        before += scan.all;
        barrier();
    }
}

// The cut of the first n, whose `rank` largest are written to `to`, in order, which may be where they are.
EFL_DEVICE Cut keep_largest_of(const Ranked& from, int n, int rank, const Ranked& to, SelectMemory& memory) {
    Cut cut = unknown_cut(rank);
    EFL_ROLLED
    while (cut.shift > 0) {
        count_digits(from.magnitudes, 0, n, cut, memory);
        barrier();
        cut = with_digit(cut, memory);
    }
    keep(from, 0, n, cut, 0, to, memory);
    return cut;
}

}  // namespace growth
