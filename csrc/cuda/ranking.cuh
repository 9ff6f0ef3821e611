// The largest of a long list, in order, by all blocks, each of which has a part of the list: a launch for every digit
// of the cut, one that counts what each block keeps, and one that writes it. Growth's; how one block selects:
// selection.cuh.
#pragma once
#include "selection.cuh"

namespace growth {

constexpr int MOST_PARTS = SELECT_THREADS;  // blocks: a thread counts for each

// A block's part of n things.
struct Part {
    int first, last;
};

EFL_DEVICE Part part_of(int n) {
    const int size = (n + int(gridDim.x) - 1) / int(gridDim.x);
    const Size first = smaller(Size(blockIdx.x) * size, Size(n));
    return {int(first), int(smaller(first + size, Size(n)))};
}

// The cut with the digit that the last launch has counted, noted for the next.
EFL_DEVICE Cut cut_so_far(const RankingArgs& a, SelectMemory& memory) {
    const int digit = int(threadIdx.x) % DIGITS, group = int(threadIdx.x) / DIGITS;
    Cut cut = unknown_cut(int(a.rank));
    if (a.turn > 0) {
        const int* const counts = a.histograms + (a.turn - 1) % 2 * gridDim.x * DIGITS;
        int sum = 0;
        EFL_ROLLED
        for (int block = group; block < int(gridDim.x); block += SUMS_OF_DIGIT) sum += counts[block * DIGITS + digit];
        memory.sums[digit * SUMS_OF_DIGIT + group] = sum;
        barrier();
        cut = with_digit(a.cuts[a.turn - 1], memory);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) a.cuts[a.turn] = cut;
    return cut;
}

EFL_KERNEL(ranking_digit, SELECT_THREADS) {
    EFL_SHARED SelectMemory memory;
    const Cut cut = cut_so_far(a, memory);
    const Part part = part_of(*a.filled);
    count_digits(a.source.magnitudes, part.first, part.last, cut, memory);
    barrier();
    if (threadIdx.x >= DIGITS) return;
    int* const counts = a.histograms + (a.turn % 2 * gridDim.x + blockIdx.x) * DIGITS;
    counts[threadIdx.x] = count_of_digit(memory, int(threadIdx.x));
}

EFL_KERNEL(ranking_count, SELECT_THREADS) {
    EFL_SHARED SelectMemory memory;
    const Cut cut = cut_so_far(a, memory);
    const Part part = part_of(*a.filled);
    Size count = 0;
    for (int i = part.first + int(threadIdx.x); i < part.last; i += SELECT_THREADS)
        count += compared(a.source.magnitudes[i], cut.bits);
    count = scanned(count, memory).all;
    if (threadIdx.x == 0) a.counted[blockIdx.x] = count;
}

// What the blocks before this one have counted. A barrier has to follow before another scan.
EFL_DEVICE Size counted_before(const Size* counted, SelectMemory& memory) {
    return scanned(threadIdx.x < blockIdx.x ? counted[threadIdx.x] : 0, memory).all;
}

EFL_KERNEL(ranking_keep, SELECT_THREADS) {
    EFL_SHARED SelectMemory memory;
    const Part part = part_of(*a.filled);
    const Size before = counted_before(a.counted, memory);
    barrier();
    keep(a.source, part.first, part.last, a.cuts[a.turn - 1], before, a.to, memory);
}

}  // namespace growth
