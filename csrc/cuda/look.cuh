// Looking through a part of a gradient for large values that a list has room for, by one block. No kernels: growth.cuh
// has them.
#pragma once
#include "selection.cuh"

namespace growth {

constexpr int LOWEST = int(0xbf800000);  // the bits of -1: as an int below those of all magnitudes
constexpr int RUN = 16;                  // values between two looks at the room in the list
constexpr int RUNS_EACH = 4;             // of a thread, together
constexpr int RUNS_OF_TILE = RUNS_EACH * SELECT_THREADS;

// The bits of |value|; NaN is infinite.
EFL_DEVICE int magnitude_of(unsigned value) { return smaller(int(value & 0x7fffffff), INFINITE); }

// Bits of the run's coordinates that do not exist; what lies behind the part's end is anything.
EFL_DEVICE unsigned open_of(const Seen& seen, int run) {
    const Size at = seen.first + Size(run) * RUN, end = (seen.first + seen.size + 7) / 8;
    unsigned bits = 0;
    EFL_ROLLED
    for (int i = 0; i < 3; ++i)
        if (at / 8 + i < end) bits |= unsigned(seen.exists[at / 8 + i]) << (8 * i);
    return ~(bits >> (at % 8));
}

// Which values of a run are larger than the limit and open.
EFL_DEVICE unsigned wanted_of(const Seen& seen, int run, int limit) {
    const int first = run * RUN, left = int(seen.size) - first;
    if (left <= 0) return 0;
    unsigned wanted = 0;
    EFL_UNROLL
    for (int i = 0; i < RUN; ++i) wanted |= unsigned(i < left && magnitude_of(seen.grad[first + i]) > limit) << i;
    return wanted & open_of(seen, run);
}

using Wanted = unsigned long long;  // a bit for each value of up to RUNS_EACH runs

EFL_DEVICE int count_bits(Wanted bits) {
    int count = 0;
    EFL_ROLLED
    for (; bits; bits &= bits - 1) ++count;
    return count;
}

EFL_DEVICE void append(const Seen& seen, int run, Wanted wanted, const Ranked& list, int at) {
    EFL_ROLLED
    for (int i = 0; i < RUN; ++i) {
        if (!(wanted >> i & 1)) continue;
        list.magnitudes[at] = magnitude_of(seen.grad[run * RUN + i]);
        list.positions[at++] = int(seen.first) + run * RUN + i;
    }
}

// How far a part has been looked through: runs, what fills the list, and what a magnitude has to exceed.
struct Progress {
    int run, filled, limit;
    int full;  // as `filled` where the list has to shrink, else 0
};

// Appends those runs of a tile from `first` on for which there is room. `at`: what fills the list before it. The
// thread that has the last such run before `end` tells how far it is.
EFL_DEVICE Size look(const Seen& seen, int first, int at, int limit, const Ranked& list, int capacity, int end,
                     Progress* progress, SelectMemory& memory) {
    const int mine = first + int(threadIdx.x) * RUNS_EACH;
    Wanted wanted = 0;  // RUN bits of each
    EFL_ROLLED
    for (int j = 0; j < RUNS_EACH; ++j) wanted |= Wanted(wanted_of(seen, mine + j, limit)) << (j * RUN);
    const Scanned scan = scanned(count_bits(wanted), memory);
    at += int(scan.before);
    EFL_ROLLED
    for (int run = mine; run < smaller(mine + RUNS_EACH, end) && at + RUN <= capacity; ++run, wanted >>= RUN) {
        const Wanted these = wanted & ((1u << RUN) - 1);
        append(seen, run, these, list, at);
        at += count_bits(these);
        if (run + 1 == end || at + RUN > capacity) *progress = {run + 1, at, limit, run + 1 < end ? at : 0};
    }
    return scan.all;
}

}  // namespace growth
