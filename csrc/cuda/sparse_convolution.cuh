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

// Calls each(channel of the tile, slot, weights, offset, kind) for the runs of a list; a channel may be of another
// tile.
template <class Each>
EFL_DEVICE void sparse_walk(const SparseUnpackArgs& a, SparseWalk walk, const Each& each) {
    const unsigned short* const runs = (const unsigned short*)(a.structure + a.runs_at);
    const SparseDivisor by_plane = sparse_divisor(int(a.plane));
    for (int kind = 0; kind < a.kinds; ++kind) {
        const int length = a.is_whole ? 1 : 3 - kind;
        EFL_ROLLED
        for (int i = 0; i < walk.list[1 + kind] && walk.run < a.count && walk.slot < walk.end; ++i, ++walk.run) {
            const int offset = runs[walk.run], weights = smaller(length, walk.end - walk.slot);
            each(offset / by_plane - walk.first_channel, walk.slot, weights, offset, kind);
            walk.slot += weights;
        }
    }
}

// How many weights of a list are of tiles before the wanted one, and of it.
EFL_DEVICE SparseList sparse_count(const SparseUnpackArgs& a, const SparseWalk& walk) {
    SparseList found = {0, 0};
    sparse_walk(a, walk, [&](int channel, int, int weights, int, int) {
        found.first += channel < 0 ? weights : 0;
        found.count += channel >= 0 && channel < a.cut ? weights : 0;
    });
    return found;
}

EFL_DEVICE void sparse_unpack_list(const SparseUnpackArgs& a, const SparseWalk& walk, int row, int to) {
    sparse_walk(a, walk, [&](int channel, int slot, int weights, int offset, int kind) {
        if (channel < 0 || channel >= a.cut) return;
        const int first = sparse_position(a, offset, channel, kind);
        EFL_ROLLED
        for (int k = 0; k < weights; ++k, ++to, ++slot) {
            const int position = sparse_clamped(first + k * a.group_pitch, a.most);
            a.to.entries[to] = a.values ? SparseEntry{position, sparse_bits(a.values[slot])}
                                        : SparseEntry{position + row * SPARSE_ROW, slot};
        }
    });
}

// Of the lists from one on, a thread's own; *at: the first slot and run, moved on behind all of these lists.
EFL_DEVICE SparseWalk sparse_next(const SparseUnpackArgs& a, const unsigned* lists, int number, int filled, int end,
                                  SparseList* at, int* shared) {
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

// A block of threads unpacks what a cell has of a tile, each list by a thread; behind what it has of the tiles before,
// which a first pass counts.
EFL_KERNEL(sparse_conv2d_unpack, 128) {
    EFL_SHARED int shared[2 * SPARSE_UNPACKERS];
    const int cell = int(blockIdx.x), part = cell / int(a.blocks), block = cell % int(a.blocks);
    const int first_row = part * int(a.part), rows = smaller(int(a.part), int(a.rows) - first_row);
    const int tile = block * int(a.cuts) + int(blockIdx.y), tiles = int(a.blocks * a.cuts);
    const unsigned* const says = a.structure + a.header + 3 * cell;
    const int slot = sparse_clamped(says[0], a.count), filled = sparse_clamped(says[2], rows);
    const int stop = cell + 1 < a.parts * a.blocks ? sparse_clamped(says[3], a.count) : int(a.count);
    const Size lists_before = part * a.part * a.blocks + Size(block) * rows;
    const unsigned* const words = a.structure + a.header + 3 * a.parts * a.blocks + a.list_words * lists_before;
    SparseList* const lists = a.to.lists + tile * a.rows + first_row;
    for (int row = int(threadIdx.x); row < rows; row += SPARSE_UNPACKERS) lists[row] = SparseList{0, 0};
    int first = slot, count = 0, all;
    for (int pass = a.cuts == 1 ? 1 : 0; pass < 2; ++pass) {
        SparseList at = {slot, sparse_clamped(says[1], a.count)};
        for (int from = 0; from < filled; from += SPARSE_UNPACKERS) {
            const int number = from + int(threadIdx.x);
            const SparseWalk own = sparse_next(a, words, number, filled, larger(slot, stop), &at, shared);
            const SparseList here = number < filled ? sparse_count(a, own) : SparseList{0, 0};
            const int before = sparse_before(pass ? here.count : here.first, shared, &all);
            if (pass && number < filled) {
                const int row = smaller(int(own.list[0]), rows - 1);
                lists[row] = SparseList{first + count + before, here.count};
                sparse_unpack_list(a, own, row, first + count + before);
            }
            (pass ? count : first) += all;
        }
    }
    if (threadIdx.x == 0) a.to.cells[part * tiles + tile] = SparseList{first, count};
}
