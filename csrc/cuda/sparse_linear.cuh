// Linear layers of masked weights, at the mask only: what a structure says, unpacked. Contracts:
// edgefl/kernels/table.py. The products are in sparse_products.cuh and sparse_gradients.cuh; the structure in
// csrc/core/sparse_linear.h.
#pragma once
#include "sparse_gradients.cuh"
#include "sparse_positions.cuh"
#include "sparse_products.cuh"

constexpr int SPARSE_COUNT_BITS = 9, SPARSE_STEP = 8, SPARSE_WIDTH = 512;

EFL_DEVICE bool sparse_is_meant(const SparseLinearArgs& a) {
    return a.turned == 2 || a.turned == (a.structure[5] == 1 ? 1 : 0);
}

// A panel of rows and a block of columns, as the structure says within its bounds.
struct SparseSegment {
    int first_row, rows, width, first_column, columns;
    int entry, entries, slot, end;
    const unsigned* says;           // of each row
    const unsigned short* offsets;  // of each slot
};

EFL_DEVICE SparseSegment sparse_segment(const SparseLinearArgs& a, int number) {
    const Size panels = (a.rows + SPARSE_PANEL - 1) / SPARSE_PANEL, segments = panels * a.blocks;
    const unsigned* const starts = a.structure + 8 + 2 * number;
    const int least = int((a.columns + a.blocks - 1) / a.blocks);  // or blocks would not hold all columns
    const int width = larger(least, sparse_clamped(a.structure[3], a.block));
    SparseSegment s;
    s.width = width;
    s.first_row = number / int(a.blocks) * SPARSE_PANEL;
    s.rows = smaller(SPARSE_PANEL, int(a.rows) - s.first_row);
    s.first_column = number % int(a.blocks) * width;
    s.columns = smaller(width, int(a.columns) - s.first_column);
    s.entry = sparse_clamped(starts[0], a.rows * a.blocks);
    s.entries = sparse_clamped(Size(smaller(starts[2], unsigned(a.rows * a.blocks))) - s.entry, s.rows);
    s.slot = sparse_clamped(starts[1], a.count);
    s.end = larger(s.slot, sparse_clamped(starts[3], a.count));
    s.says = a.structure + 8 + 2 * (segments + 1);
    s.offsets = (const unsigned short*)(s.says + a.rows * a.blocks);
    s.says += s.entry;
    return s;
}

// Of this thread's row: which it is and its slots, none where the segment has no more rows.
struct SparseLinearRow {
    int number;
    SparseList slots;
};

EFL_DEVICE SparseLinearRow sparse_linear_row(const SparseSegment& s, int* shared, int* all) {
    const int thread = int(threadIdx.x);
    const unsigned says = thread < s.entries ? s.says[thread] : 0u;
    const int count = int(says & ((1u << SPARSE_COUNT_BITS) - 1));
    const int first = smaller(s.slot + sparse_before(count, shared, all), s.end);
    const int row = sparse_clamped(Size(says >> SPARSE_COUNT_BITS), s.first_row + s.rows - 1);
    return {larger(row, s.first_row), {first, smaller(count, s.end - first)}};
}

EFL_DEVICE int sparse_column(const SparseSegment& s, int slot) {
    return smaller(s.offsets[slot] / SPARSE_STEP, s.columns - 1);
}

// A block of threads unpacks a segment, each row by a thread.
EFL_KERNEL(sparse_linear_unpack, 128) {
    EFL_SHARED int shared[2 * SPARSE_UNPACKERS];
    if (!sparse_is_meant(a)) return;
    const SparseSegment s = sparse_segment(a, int(blockIdx.x));
    const int thread = int(threadIdx.x);
    if (blockIdx.x == 0 && thread == 0) *a.to.blocks = SparseBlocks{s.width, int(a.blocks)};
    SparseList* const lists = a.to.lists + blockIdx.x % a.blocks * a.rows;
    if (thread < s.rows) lists[s.first_row + thread] = SparseList{0, 0};
    int all;
    const SparseLinearRow row = sparse_linear_row(s, shared, &all);  // after a barrier
    if (thread == 0) a.to.cells[blockIdx.x] = SparseList{s.slot, smaller(all, s.end - s.slot)};
    if (thread >= s.entries) return;
    lists[row.number] = row.slots;
    for (int slot = row.slots.first; slot < row.slots.first + row.slots.count; ++slot) {
        const int position = sparse_column(s, slot) * int(a.group_pitch);
        a.to.entries[slot] = a.values ? SparseEntry{position, sparse_bits(a.values[slot])}
                                      : SparseEntry{position + (row.number - s.first_row) * SPARSE_ROW, slot};
    }
}

// The same for the gradient of the input: its rows are the structure's columns, which read a panel of outputs at a
// time.
// A segment's slots are sorted by their columns: some walkers count, each in its rows, and then know where theirs go.
constexpr int SPARSE_WALKERS = 32;

EFL_KERNEL(sparse_linear_turn, 128) {
    EFL_SHARED int shared[2 * SPARSE_UNPACKERS];
    EFL_SHARED SparseLinearRow rows[SPARSE_UNPACKERS];
    EFL_SHARED int starts[SPARSE_WIDTH];
    EFL_SHARED unsigned short seen[SPARSE_WALKERS][SPARSE_WIDTH];
    if (!sparse_is_meant(a)) return;
    const SparseSegment s = sparse_segment(a, int(blockIdx.x));
    const int thread = int(threadIdx.x), panel = s.first_row / SPARSE_PANEL;
    if (blockIdx.x == 0 && thread == 0)
        *a.to.blocks = SparseBlocks{SPARSE_PANEL, int((a.rows + SPARSE_PANEL - 1) / SPARSE_PANEL)};
    int all;
    rows[thread] = sparse_linear_row(s, shared, &all);
    for (int i = thread; i < SPARSE_WALKERS * SPARSE_WIDTH; i += SPARSE_UNPACKERS) (&seen[0][0])[i] = 0;
    barrier();
    for (int r = thread; thread < SPARSE_WALKERS && r < s.entries; r += SPARSE_WALKERS)
        for (int i = 0; i < rows[r].slots.count; ++i) ++seen[thread][sparse_column(s, rows[r].slots.first + i)];
    barrier();
    int slot = s.slot;
    for (int from = 0; from < s.columns; from += SPARSE_UNPACKERS) {
        const int column = from + thread;
        int count = 0;
        for (int walker = 0; column < s.columns && walker < SPARSE_WALKERS; ++walker) {
            const int more = seen[walker][column];
            seen[walker][column] = (unsigned short)(count), count += more;
        }
        const int first = slot + sparse_before(count, shared, &all);
        slot += all;
        if (column < s.columns) {
            starts[column] = first;
            a.to.lists[panel * a.columns + s.first_column + column] = SparseList{first, count};
        }
    }
    barrier();
    for (int r = thread; thread < SPARSE_WALKERS && r < s.entries; r += SPARSE_WALKERS)
        for (int from = rows[r].slots.first; from < rows[r].slots.first + rows[r].slots.count; ++from) {
            const int column = sparse_column(s, from), to = starts[column] + seen[thread][column]++;
            const int position = (rows[r].number - s.first_row) * int(a.group_pitch);
            a.to.entries[to] = SparseEntry{position, sparse_bits(a.values[from])};
        }
}
