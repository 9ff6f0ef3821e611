// Convolutions of masked weights, at the mask only: what a structure says, unpacked. Contracts: csrc/edgefl.h.
// The products are in sparse_products.cuh and sparse_gradients.cuh; the structure in csrc/core/sparse_convolution.h.
#pragma once
#include "sparse_gradients.cuh"
#include "sparse_places.cuh"
#include "sparse_products.cuh"

struct SparseUnpackArgs {
    const unsigned* structure;
    const float* values;  // or null, for gradients
    SparseUnpacked to;
    Size count, rows, part, parts, blocks, kinds, is_whole;
    Size header, list_words, runs_at;                 // words
    Size plane, phase_plane, pitch;                   // of the structure's offsets
    Size tile_rows, tile_pitch, group_pitch, phases;  // of a tile's
    Size most;                                        // the last place that any position may read from
};

// The place in a tile of an offset of the structure's.
EFL_DEVICE int sparse_place(const SparseUnpackArgs& a, int offset, int kind) {
    const int channel = offset / int(a.plane), rest = offset % int(a.plane);
    const int phase = a.is_whole ? 0 : rest / int(a.phase_plane), in_phase = rest % int(a.phase_plane);
    const int down = a.is_whole ? kind / 3 : in_phase / int(a.pitch);
    const int along = a.is_whole ? kind % 3 : in_phase % int(a.pitch);
    const int row = (channel * int(a.phases) + phase) * int(a.tile_rows) + down;
    return (row * int(a.tile_pitch) + along) * int(a.group_pitch);
}

// The weights of a list from a slot and a run on, none at `end` or beyond.
EFL_DEVICE SparseList sparse_unpack_list(const SparseUnpackArgs& a, const unsigned short* list, int row, int slot,
                                         int run, int end) {
    const unsigned short* const runs = (const unsigned short*)(a.structure + a.runs_at);
    const int first = slot;
    for (int kind = 0; kind < a.kinds; ++kind) {
        const int length = a.is_whole ? 1 : 3 - kind;
        for (int i = 0; i < list[1 + kind] && run < a.count; ++i, ++run) {
            const int place = sparse_place(a, runs[run], kind);
            for (int k = 0; k < length && slot < end; ++k, ++slot) {
                const int bits = a.values ? sparse_bits(a.values[slot]) : row;
                a.to.entries[slot] = SparseEntry{sparse_clamped(place + k * a.group_pitch, a.most), bits};
            }
        }
    }
    return SparseList{first, slot - first};
}

// A block of threads unpacks a cell, each list by a thread.
EFL_KERNEL(sparse_conv2d_unpack, 128, SparseUnpackArgs) {
    EFL_SHARED int shared[2 * SPARSE_UNPACKERS];
    const int cell = int(blockIdx.x), part = cell / int(a.blocks), block = cell % int(a.blocks);
    const int first_row = part * int(a.part), rows = smaller(int(a.part), int(a.rows) - first_row);
    const unsigned* const says = a.structure + a.header + 3 * cell;
    const bool is_last = cell == a.parts * a.blocks - 1;
    int slot = sparse_clamped(says[0], a.count), run = sparse_clamped(says[1], a.count);
    const int end = larger(slot, is_last ? int(a.count) : sparse_clamped(says[3], a.count));
    if (threadIdx.x == 0) a.to.cells[cell] = SparseList{slot, end - slot};
    SparseList* const lists = a.to.lists + block * a.rows + first_row;
    for (int row = int(threadIdx.x); row < rows; row += SPARSE_UNPACKERS) lists[row] = SparseList{0, 0};
    sparse_fill(a.to.entries, slot, end);
    barrier();
    const Size lists_before = part * a.part * a.blocks + Size(block) * rows;
    const unsigned* const words = a.structure + a.header + 3 * a.parts * a.blocks + a.list_words * lists_before;
    const int filled = sparse_clamped(says[2], rows);
    for (int from = 0; from < filled; from += SPARSE_UNPACKERS) {
        const int number = from + int(threadIdx.x);
        const unsigned short* const list = (const unsigned short*)(words + a.list_words * number);
        int slots = 0, runs = 0, all_slots, all_runs;
        for (int kind = 0; number < filled && kind < a.kinds; ++kind)
            runs += list[1 + kind], slots += list[1 + kind] * (a.is_whole ? 1 : 3 - kind);
        const int slots_before = sparse_before(smaller(slots, SPARSE_LONGEST), shared, &all_slots);
        const int runs_before = sparse_before(smaller(runs, SPARSE_LONGEST), shared, &all_runs);
        if (number < filled) {
            const int row = smaller(int(list[0]), rows - 1), at = smaller(slot + slots_before, end);
            lists[row] = sparse_unpack_list(a, list, first_row + row, at, run + runs_before, end);
        }
        slot = smaller(slot + all_slots, end), run = smaller(run + all_runs, int(a.count));
    }
}
