// Convolutions of masked weights, at the mask only: what a structure says, unpacked. Contracts:
// edgefl/kernels/table.py. The products are in sparse_products.cuh and sparse_gradients.cuh; the structure in
// csrc/core/sparse_convolution.h.
#pragma once
#include "sparse_gradients.cuh"
#include "sparse_positions.cuh"
#include "sparse_products.cuh"

// A list of the structure's: its first slot and run, none at `end` or beyond, and the tile whose weights are wanted.
struct SparseWalk {
    const unsigned short* list;
    int slot, run, end, first_channel;
};

// The position in a tile of an offset of the structure's; channel: of the tile.
EFL_DEVICE int sparse_position(const SparseUnpackArgs& a, int offset, int channel, int kind) {
    const int rest = offset % int(a.plane), in_phase = rest % int(a.phase_plane);
    const int phase = a.is_whole ? 0 : rest / int(a.phase_plane);
    const int down = a.is_whole ? kind / 3 : in_phase / int(a.pitch);
    const int along = a.is_whole ? kind % 3 : in_phase % int(a.pitch);
    const int row = (channel * int(a.phases) + phase) * int(a.tile_rows) + down;
    return (row * int(a.tile_pitch) + along) * int(a.group_pitch);
}

// The runs of one kind of a list, which are sorted by their channels: [first, last) are of the wanted tile. Their slots
// begin at `slot` and lie `length` apart.
struct SparseKind {
    const unsigned short* runs;
    int first, last, slot, length;
};

// How many of the first runs, sorted, have an offset below `end`.
EFL_DEVICE int sparse_below(const unsigned short* runs, int count, int end) {
    int low = 0;
    EFL_ROLLED
    for (int high = count; low < high;) {
        const int middle = (low + high) / 2;
        if (runs[middle] < end) low = middle + 1;
        else high = middle;
    }
    return low;
}

// Calls each(kind, its runs) for the kinds of a list.
template <class Args, class Each>
EFL_DEVICE void sparse_kinds(const Args& a, SparseWalk walk, const Each& each) {
    const unsigned short* const runs = (const unsigned short*)(a.structure + a.runs_at);
    const int plane = int(a.plane), begin = walk.first_channel * plane, end = begin + int(a.cut) * plane;
    EFL_ROLLED
    for (int kind = 0; kind < a.kinds; ++kind) {
        const int length = a.is_whole ? 1 : 3 - kind,
                  count = smaller(int(walk.list[1 + kind]), int(a.count) - walk.run);
        const int first = sparse_below(runs + walk.run, count, begin);
        const int last = first + sparse_below(runs + walk.run + first, count - first, end);
        each(kind, SparseKind{runs + walk.run, first, last, walk.slot, length});
        walk.slot = smaller(walk.slot + count * length, walk.end);
        walk.run += count;
    }
}

// How many weights of a list are of tiles before the wanted one, and of it.
template <class Args>
EFL_DEVICE SparseList sparse_count(const Args& a, const SparseWalk& walk) {
    SparseList found = {0, 0};
    sparse_kinds(a, walk, [&](int, const SparseKind& of) {
        const int room = walk.end - of.slot, before = smaller(of.first * of.length, room);
        found.first += before;
        found.count += smaller(of.last * of.length, room) - before;
    });
    return found;
}

// A run of the wanted tile: its channel there, its slots, and how many weights of its list and tile are before it.
struct SparseRun {
    int kind, offset, channel, slot, weights, before;
};

// Calls each(run) for the runs of a list that are of the wanted tile. Blocks of threads side by side in z take turns.
template <class Args, class Each>
EFL_DEVICE void sparse_walk(const Args& a, const SparseWalk& walk, const Each& each) {
    const SparseDivisor by_plane = sparse_divisor(int(a.plane));
    int done = 0;
    sparse_kinds(a, walk, [&](int kind, const SparseKind& of) {
        const int first_slot = of.slot + of.first * of.length;
        EFL_ROLLED
        for (int i = of.first + int(blockIdx.z); i < of.last; i += int(gridDim.z)) {
            const int offset = of.runs[i], slot = of.slot + i * of.length;
            const int channel = sparse_clamped(offset / by_plane - walk.first_channel, a.cut - 1);
            each(SparseRun{kind, offset, channel, slot, smaller(of.length, walk.end - slot), done + slot - first_slot});
        }
        done += smaller((of.last - of.first) * of.length, larger(walk.end - first_slot, 0));
    });
}

EFL_DEVICE void sparse_unpack_list(const SparseUnpackArgs& a, const SparseWalk& walk, int row, int to) {
    sparse_walk(a, walk, [&](const SparseRun& run) {
        const int first = sparse_position(a, run.offset, run.channel, run.kind);
        EFL_ROLLED
        for (int k = 0; k < run.weights; ++k) {
            const int position = sparse_clamped(first + k * a.group_pitch, a.most), slot = run.slot + k;
            a.to.entries[to + run.before + k] = a.values ? SparseEntry{position, sparse_bits(a.values[slot])}
                                                         : SparseEntry{position + row * SPARSE_ROW, slot};
        }
    });
}

// Of the lists from one on, a thread's own; *at: the first slot and run, moved on behind all of these lists.
template <class Args>
EFL_DEVICE SparseWalk sparse_next(const Args& a, const unsigned* lists, int number, int filled, int end, SparseList* at,
                                  int* shared) {
    SparseWalk own = {(const unsigned short*)(lists + a.list_words * number), 0, 0, 0, int(blockIdx.y * a.cut)};
    int slots = 0, runs = 0, all;
    for (int kind = 0; number < filled && kind < a.kinds; ++kind)
        runs += own.list[1 + kind], slots += own.list[1 + kind] * (a.is_whole ? 1 : 3 - kind);
    own.slot = smaller(at->first + sparse_before(smaller(slots, SPARSE_LONGEST), shared, &all), end);
    own.end = smaller(own.slot + slots, end);
    at->first = smaller(at->first + all, end);
    own.run = at->count + sparse_before(smaller(runs, SPARSE_LONGEST), shared, &all);
    at->count = smaller(at->count + all, int(a.count));
    return own;
}

// What the structure says of this block's cell, within its bounds.
struct SparseCell {
    int number, part, block, first_row, rows;
    int slot, end, run, filled;  // its first slot, the end of its slots, its first run, and how many lists it has
    const unsigned* lists;
};

template <class Args>
EFL_DEVICE SparseCell sparse_cell(const Args& a) {
    SparseCell cell;
    cell.number = int(blockIdx.x);
    cell.part = cell.number / int(a.blocks), cell.block = cell.number % int(a.blocks);
    cell.first_row = cell.part * int(a.part), cell.rows = smaller(int(a.part), int(a.rows) - cell.first_row);
    const unsigned* const says = a.structure + a.header + 3 * cell.number;
    cell.slot = sparse_clamped(says[0], a.count), cell.run = sparse_clamped(says[1], a.count);
    cell.filled = sparse_clamped(says[2], cell.rows);
    const int stop = cell.number + 1 < a.parts * a.blocks ? sparse_clamped(says[3], a.count) : int(a.count);
    cell.end = larger(cell.slot, stop);
    const Size lists_before = cell.part * a.part * a.blocks + Size(cell.block) * cell.rows;
    cell.lists = a.structure + a.header + 3 * a.parts * a.blocks + a.list_words * lists_before;
    return cell;
}

// A block of threads unpacks what a cell has of a tile, each list by a thread; behind what it has of the tiles before,
// which a first pass counts. Several blocks, side by side in z, share the runs of the lists.
EFL_KERNEL(sparse_conv2d_unpack, 128) {
    EFL_SHARED int shared[2 * SPARSE_UNPACKERS];
    const SparseCell cell = sparse_cell(a);
    const int tile = cell.block * int(a.cuts) + int(blockIdx.y), tiles = int(a.blocks * a.cuts);
    SparseList* const lists = a.to.lists + tile * a.rows + cell.first_row;
    const bool tells = blockIdx.z == 0;
    for (int row = int(threadIdx.x); tells && row < cell.rows; row += SPARSE_UNPACKERS) lists[row] = SparseList{0, 0};
    int first = cell.slot, count = 0, all;
    for (int pass = a.cuts == 1 ? 1 : 0; pass < 2; ++pass) {
        SparseList at = {cell.slot, cell.run};
        for (int from = 0; from < cell.filled; from += SPARSE_UNPACKERS) {
            const int number = from + int(threadIdx.x);
            const SparseWalk own = sparse_next(a, cell.lists, number, cell.filled, cell.end, &at, shared);
            const SparseList here = number < cell.filled ? sparse_count(a, own) : SparseList{0, 0};
            const int before = sparse_before(pass ? here.count : here.first, shared, &all);
            if (pass && number < cell.filled) {
                const int row = smaller(int(own.list[0]), cell.rows - 1);
                if (tells) lists[row] = SparseList{first + count + before, here.count};
                sparse_unpack_list(a, own, row, first + count + before);
            }
            (pass ? count : first) += all;
        }
    }
    if (tells && threadIdx.x == 0) a.to.cells[cell.part * tiles + tile] = SparseList{first, count};
}

// The tap of a weight, by the offset of its run within its channel, and how many weights of the run are before it.
EFL_DEVICE int sparse_tap(const SparseTakeArgs& a, int rest, int within, int kind) {
    if (a.is_whole) return kind;
    const int phase = rest / int(a.phase_plane), in_phase = rest % int(a.phase_plane);
    const int down = in_phase / int(a.pitch) * int(a.step_down) + phase / int(a.phases_along);
    const int along = (in_phase % int(a.pitch) + within) * int(a.step_along) + phase % int(a.phases_along);
    return down / int(a.apart_down) * int(a.taps_along) + along / int(a.apart_along);
}

// gradients = those of the whole weight [rows, channels, taps] that the structure names.
EFL_KERNEL(sparse_conv2d_take, 128) {
    EFL_SHARED int shared[2 * SPARSE_UNPACKERS];
    const SparseCell cell = sparse_cell(a);
    SparseList at = {cell.slot, cell.run};
    for (int from = 0; from < cell.filled; from += SPARSE_UNPACKERS) {
        const int number = from + int(threadIdx.x);
        const SparseWalk own = sparse_next(a, cell.lists, number, cell.filled, cell.end, &at, shared);
        if (number >= cell.filled) continue;
        const int row = cell.first_row + smaller(int(own.list[0]), cell.rows - 1);
        sparse_walk(a, own, [&](const SparseRun& run) {
            const int taps = int(a.taps), rest = run.offset % int(a.plane);
            const int of = sparse_clamped(cell.block * a.block + own.first_channel + run.channel, a.channels - 1);
            EFL_ROLLED
            for (int k = 0; k < run.weights; ++k) {
                const int tap = sparse_clamped(sparse_tap(a, rest, k, run.kind), taps - 1);
                a.gradients[run.slot + k] = a.dense[(row * int(a.channels) + of) * taps + tap];
            }
        });
    }
}
