// The plan of a masked Linear layer's structure, and the check that a structure can be followed.
#include "sparse_linear.h"

namespace efl {
namespace {

constexpr efl_int64 FEW = 16, SOME = 32;  // examples: one vector, two vectors of the widest instruction set

// Columns of a block: with the examples of one pass, 24 to 32 kB of activations. More columns and fewer examples at
// once where rows are short, as each visit of a row costs as much as some of its weights.
efl_int64 width_for(efl_int64 rows, efl_int64 columns, efl_int64 slots, efl_int64 batch) {
    if (batch <= FEW) return 384;
    if (batch <= SOME) return 192;
    const bool is_dense = rows == 0 || slots / rows >= columns * 3 / 20;
    return is_dense ? 48 : 128;
}

// Signed, as the baseline's vectors have no unsigned maximum; an offset that looks negative is seen by its bits.
bool offsets_stay_inside(const uint16_t* offsets, efl_int64 count, efl_int64 columns) {
    int16_t most = 0, bits = 0;
    for (efl_int64 i = 0; i < count; ++i) {
        const int16_t offset = int16_t(offsets[i]);
        most = offset > most ? offset : most;
        bits = int16_t(bits | offset);
    }
    return count == 0 || (bits >= 0 && bits % SparseLinear::STEP == 0 && most < columns * SparseLinear::STEP);
}

// Of one segment: rows of its panel, counts that fit and add up to its slots, offsets inside its block.
bool segment_is_sound(const SparseLinear& s, efl_int64 panel, efl_int64 block) {
    const efl_uint32* const start = s.starts + 2 * (panel * s.blocks + block);
    if (start[2] < start[0] || start[2] > s.rows * s.blocks || start[3] < start[1] || start[3] > s.slots) return false;
    if (block == 0 && start[2] - start[0] != s.rows_of(panel)) return false;
    efl_int64 slots = 0;
    for (efl_int64 e = start[0]; e < start[2]; ++e) {
        const efl_int64 position = SparseLinear::row(s.entries[e]) - s.first_row(panel);
        if (position < 0 || position >= s.rows_of(panel)) return false;
        slots += SparseLinear::count(s.entries[e]);
    }
    return slots == start[3] - start[1] && offsets_stay_inside(s.offsets + start[1], slots, s.columns_of(block));
}

}  // namespace

SparseLinear plan_sparse_linear(efl_int64 rows, efl_int64 columns, efl_int64 slots, efl_int64 batch) {
    return SparseLinear::of(rows, columns, width_for(rows, columns, slots, batch), slots);
}

efl_status check_sparse_linear(const efl_uint32* memory, efl_int64 words, efl_int64 rows, efl_int64 columns,
                               efl_int64 slots, bool transposed) {
    if (words < SparseLinear::HEADER || memory[0] != SparseLinear::MAGIC || memory[1] != rows || memory[2] != columns ||
        memory[3] < 1 || memory[3] > SparseLinear::MOST_WIDTH || memory[4] != slots || memory[5] != transposed)
        return EFL_BAD_STRUCTURE;
    if (rows >= SparseLinear::MOST_ROWS) return EFL_BAD_STRUCTURE;
    const SparseLinear plan = SparseLinear::of(rows, columns, memory[3], slots);
    if (plan.words() != words) return EFL_BAD_STRUCTURE;
    const SparseLinear s = plan.over(memory);
    for (efl_int64 p = 0; p < s.panels; ++p)
        for (efl_int64 k = 0; k < s.blocks; ++k)
            if (!segment_is_sound(s, p, k)) return EFL_BAD_STRUCTURE;
    const efl_uint32* const end = s.starts + 2 * s.segments();
    return s.starts[0] == 0 && s.starts[1] == 0 && end[1] == slots ? EFL_OK : EFL_BAD_STRUCTURE;
}

}  // namespace efl
