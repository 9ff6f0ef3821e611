// The structure of a masked Linear layer: which weights exist, in the order in which kernels read them. One array of
// 32-bit words; the weights lie elsewhere, a float per slot.
//
// Rows are cut into panels, columns into blocks whose activations stay in a first cache. A segment is what one panel
// has in one block: rows by rising count, so that the trip counts of loops are foreseen, and of each row its columns in
// order. Rows are outputs and columns inputs, or the other way round in a transposed structure.
//
//     8 words       magic, rows, columns, width of a block, slots, 1 if it is transposed, 0, 0
//     2 a segment   its first entry, its first slot; panel by panel, in it block by block; at the end, how many of both
//     entries       row << COUNT_BITS | count; the first block lists every row, the others those with a slot. Room for
//                   one for each row in each block
//     slots         half words: STEP x (column - the block's first). Two more, as kernels read ahead
#pragma once
#include <cstdint>

#include "abi.h"

namespace efl {

struct SparseLinear {
    static constexpr efl_uint32 MAGIC = 0x4c505345;  // "ESPL"
    static constexpr efl_int64 HEADER = 8, PANEL = 128, MOST_WIDTH = 511;
    static constexpr int COUNT_BITS = 9, STEP = 8;
    static constexpr efl_int64 MOST_ROWS = efl_int64(1) << (32 - COUNT_BITS), MOST_SLOTS = 0xffffffff;

    efl_int64 rows, columns, width, slots;
    efl_int64 panels, blocks;
    const efl_uint32* starts;   // [segments + 1][2]
    const efl_uint32* entries;  // [rows * blocks]
    const uint16_t* offsets;    // [slots]

    static SparseLinear of(efl_int64 rows, efl_int64 columns, efl_int64 width, efl_int64 slots) {
        SparseLinear s = {};
        s.rows = rows, s.columns = columns, s.width = width, s.slots = slots;
        s.panels = (rows + PANEL - 1) / PANEL;
        s.blocks = columns > 0 ? (columns + width - 1) / width : 1;
        return s;
    }

    // As of(), over the words of a structure that has been checked, or is being written.
    SparseLinear over(const efl_uint32* memory) const {
        SparseLinear s = *this;
        s.starts = memory + HEADER;
        s.entries = s.starts + 2 * (segments() + 1);
        s.offsets = reinterpret_cast<const uint16_t*>(s.entries + rows * blocks);
        return s;
    }

    static SparseLinear read(const efl_uint32* memory) {
        return of(memory[1], memory[2], memory[3], memory[4]).over(memory);
    }

    efl_int64 segments() const { return panels * blocks; }
    efl_int64 words() const { return HEADER + 2 * (segments() + 1) + rows * blocks + (slots + 1) / 2 + 1; }
    efl_int64 first_row(efl_int64 panel) const { return panel * PANEL; }
    efl_int64 rows_of(efl_int64 panel) const { return rows - panel * PANEL < PANEL ? rows - panel * PANEL : PANEL; }
    efl_int64 first_column(efl_int64 block) const { return block * width; }
    efl_int64 columns_of(efl_int64 block) const {
        return columns - block * width < width ? columns - block * width : width;
    }

    static efl_int64 row(efl_uint32 entry) { return entry >> COUNT_BITS; }
    static efl_int64 count(efl_uint32 entry) { return entry & ((1u << COUNT_BITS) - 1); }
    static bool is_transposed(const efl_uint32* memory) { return memory[5] == 1; }
};

// The structure of a mask that keeps `slots` of a matrix, for batches of about `batch` examples.
SparseLinear plan_sparse_linear(efl_int64 rows, efl_int64 columns, efl_int64 slots, efl_int64 batch);

// EFL_OK if `memory` is a whole structure of such a matrix, so that whoever follows it stays inside of all arrays.
efl_status check_sparse_linear(const efl_uint32* memory, efl_int64 words, efl_int64 rows, efl_int64 columns,
                               efl_int64 slots, bool transposed);

}  // namespace efl
