// The largest gradients outside a mask: by one block where the list is short, else by all of them first. Contracts:
// csrc/edgefl.h.
#pragma once
#include "look.cuh"
#include "ranking.cuh"

namespace growth {

EFL_DEVICE int runs_of(const KeepLargestArgs& a) { return int((a.seen.size + RUN - 1) / RUN); }
EFL_DEVICE bool has_room(const KeepLargestArgs& a, int filled) { return filled + RUN <= a.capacity; }
EFL_DEVICE int limit_of(const KeepLargestArgs& a, const Cut& cut) { return a.count > 0 ? cut.bits : INFINITE; }

EFL_DEVICE Progress progress_of(const KeepLargestArgs& a) {
    if (a.now) return *a.now;
    if (a.seen.first == 0) return {0, 0, LOWEST, 0};
    return {0, *a.filled, *a.smallest, 0};
}

// What is left, by one block.
EFL_KERNEL(keep_largest, SELECT_THREADS) {
    EFL_SHARED SelectMemory memory;
    EFL_SHARED Progress told;
    const int runs = runs_of(a), count = int(a.count);
    Progress now = progress_of(a);
    EFL_ROLLED
    while (now.run < runs) {
        if (!has_room(a, now.filled)) {
            now.limit = limit_of(a, keep_largest_of(a.list, now.filled, count, a.list, memory));
            now.filled = count;
        }
        const int end = smaller(now.run + RUNS_OF_TILE, runs);
        look(a.seen, now.run, now.filled, now.limit, a.list, int(a.capacity), end, &told, memory);
        barrier();
        now = told;
    }
    if (threadIdx.x > 0) return;
    *a.filled = now.filled;
    *a.smallest = now.limit;
}

// ---- a round by all blocks: count, append, shrink as ranking.cuh does, settle --------------------------------------

// This block's runs of those from `now` on.
EFL_DEVICE Part runs_of_block(const KeepLargestArgs& a, const Progress& now) {
    const int left = larger(runs_of(a) - now.run, 0), tiles = (left + RUNS_OF_TILE - 1) / RUNS_OF_TILE;
    const Part part = part_of(tiles);
    return {now.run + part.first * RUNS_OF_TILE, smaller(now.run + part.last * RUNS_OF_TILE, runs_of(a))};
}

EFL_KERNEL(growth_count, SELECT_THREADS) {
    EFL_SHARED SelectMemory memory;
    const Progress now = progress_of(a);
    const Part part = runs_of_block(a, now);
    Size count = 0;
    EFL_ROLLED
    for (int run = part.first + int(threadIdx.x); run < part.last; run += SELECT_THREADS)
        count += count_bits(wanted_of(a.seen, run, now.limit));
    count = scanned(count, memory).all;
    if (threadIdx.x == 0) a.counted[blockIdx.x] = count;
}

EFL_KERNEL(growth_append, SELECT_THREADS) {
    EFL_SHARED SelectMemory memory;
    const Progress now = progress_of(a);
    const Part part = runs_of_block(a, now);
    const int runs = runs_of(a);
    if (now.run >= runs || !has_room(a, now.filled)) {
        if (thread_of_grid() == 0) *a.looked = {now.run, now.filled, now.limit, now.run < runs ? now.filled : 0};
        return;
    }
    Size filled = now.filled + counted_before(a.counted, memory);
    EFL_ROLLED
    for (int run = part.first; run < part.last && has_room(a, int(filled)); run += RUNS_OF_TILE) {
        barrier();
        filled += look(a.seen, run, int(filled), now.limit, a.list, int(a.capacity), runs, a.looked, memory);
    }
}

EFL_KERNEL(growth_settle, SELECT_THREADS) {
    const Progress looked = *a.looked;
    const bool is_shrunk = looked.full > 0;
    if (thread_of_grid() == 0) *a.now = is_shrunk ? Progress{looked.run, int(a.count), limit_of(a, *a.cut), 0} : looked;
    if (!is_shrunk) return;
    EFL_ROLLED
    for (Size i = thread_of_grid(); i < a.count; i += threads_of_grid()) {
        a.list.magnitudes[i] = a.kept.magnitudes[i];
        a.list.positions[i] = a.kept.positions[i];
    }
}

// ---- the positions of the largest, by one block --------------------------------------------------------------------

EFL_KERNEL(largest_places, SELECT_THREADS) {
    EFL_SHARED SelectMemory memory;
    keep_largest_of(a.list, *a.filled, int(a.count), {nullptr, a.found}, memory);
}

}  // namespace growth
