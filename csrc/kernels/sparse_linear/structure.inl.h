// The structures of a mask: what each row has in each block is counted by words of bits, rows are sorted by their
// counts, and one walk over the mask then places every weight, in both directions at once.

// How many bits each row has in each block: [block][row].
static void count_rows(const SparseLinear& s, const Bits& bits, uint16_t* counts) {
    each_block(s.blocks, s.rows * s.columns, [&](int64_t k) {
        const int64_t first = s.first_column(k), columns = s.columns_of(k);
        for (int64_t r = 0; r < s.rows; ++r)
            counts[k * s.rows + r] = uint16_t(bits.count(r * s.columns + first, columns));
    });
}

// The same of a transposed structure, whose blocks are rows of the mask: bytes are added down its columns.
static void count_columns(const SparseLinear& t, const efl_uint8* mask, uint16_t* counts) {
    constexpr int64_t LANES = 256, MOST = 255;
    each_block(t.blocks, t.rows * t.columns, [&](int64_t k) {
        uint16_t* const to = counts + k * t.rows;
        std::memset(to, 0, sizeof(uint16_t) * size_t(t.rows));
        const int64_t end = t.first_column(k) + t.columns_of(k);
        for (int64_t first = t.first_column(k); first < end; first += MOST)
            for (int64_t c = 0; c < t.rows; c += LANES) {
                const int64_t n = least(LANES, t.rows - c);
                efl_uint8 sums[LANES] = {};
                for (int64_t r = first; r < least(end, first + MOST); ++r) {
                    const efl_uint8* const row = mask + r * t.rows + c;
                    for (int64_t i = 0; i < n; ++i) sums[i] = efl_uint8(sums[i] + (row[i] != 0));
                }
                for (int64_t i = 0; i < n; ++i) to[c + i] = uint16_t(to[c + i] + sums[i]);
            }
    });
}

// Where the next row of a count goes, and its slots.
struct RowPosition {
    efl_uint32 entry, slot;
};

// The rows of a panel with a bit in the block (in the first block all of them), by rising count; and where each row's
// slots begin. Returns where the next segment's do.
static RowPosition list_rows(const SparseLinear& s, const uint16_t* counts, int64_t panel, int64_t block,
                             RowPosition at, efl_uint32* entries, efl_uint32* first_slots) {
    RowPosition positions[SparseLinear::MOST_WIDTH + 2];
    efl_uint32 found[SparseLinear::MOST_WIDTH + 2];
    const int64_t first = s.first_row(panel), end = first + s.rows_of(panel), most = s.columns_of(block);
    std::memset(found, 0, sizeof(efl_uint32) * size_t(most + 1));
    for (int64_t r = first; r < end; ++r) ++found[counts[r]];
    if (block) found[0] = 0;
    for (int64_t n = 0; n <= most; ++n) {
        positions[n] = at;
        at.entry += found[n], at.slot += found[n] * efl_uint32(n);
    }
    for (int64_t r = first; r < end; ++r) {
        const efl_uint32 count = counts[r];
        if (!count && block) continue;
        RowPosition& position = positions[count];
        entries[position.entry++] = efl_uint32(r) << SparseLinear::COUNT_BITS | count;
        first_slots[r] = position.slot;
        position.slot += count;
    }
    return at;
}

// All of a structure but its offsets; first_slots [block][row] is where a row's slots in a block begin.
static void write_rows(const SparseLinear& plan, const uint16_t* counts, bool transposed, efl_uint32* memory,
                       efl_uint32* first_slots) {
    const SparseLinear s = plan.over(memory);
    auto* start = const_cast<efl_uint32*>(s.starts);
    auto* const entries = const_cast<efl_uint32*>(s.entries);
    const efl_int64 header[] = {SparseLinear::MAGIC, s.rows, s.columns, s.width, s.slots, transposed, 0, 0};
    for (int i = 0; i < SparseLinear::HEADER; ++i) memory[i] = efl_uint32(header[i]);
    RowPosition at = {0, 0};
    for (int64_t p = 0; p < s.panels; ++p)
        for (int64_t k = 0; k < s.blocks; ++k) {
            *start++ = at.entry, *start++ = at.slot;
            at = list_rows(s, counts + k * s.rows, p, k, at, entries, first_slots + k * s.rows);
        }
    *start++ = at.entry, *start++ = at.slot;
    std::memset(entries + at.entry, 0, sizeof(efl_uint32) * size_t(s.rows * s.blocks - at.entry));
    std::memset(const_cast<uint16_t*>(s.offsets) + at.slot, 0, sizeof(uint16_t) * (2 + at.slot % 2));
}

// The lists that one walk over a mask fills.
struct RowLists {
    const efl_uint32* first_slots;
    uint16_t* offsets;
    efl_uint32* order;
};

// The weights of one block of columns, row by row, so that what is written stays in a first cache. Moves the transposed
// first_slots on.
template <bool TRANSPOSED>
static void place_block(const SparseLinear& s, const SparseLinear& t, const Bits& bits, int64_t block,
                        const RowLists& to, const RowLists& to_t, efl_uint32* next_slots) {
    const int64_t first = s.first_column(block), columns = s.columns_of(block);
    for (int64_t r = 0; r < s.rows; ++r) {
        const int64_t flat = r * s.columns + first;
        efl_uint32 slot = to.first_slots[block * s.rows + r];
        efl_uint32* const next = TRANSPOSED ? next_slots + r / t.width * t.rows + first : nullptr;
        const uint16_t across = TRANSPOSED ? uint16_t(r % t.width * SparseLinear::STEP) : 0;
        bits.each(flat, columns, [&](int64_t i) __attribute__((always_inline)) {
            to.offsets[slot] = uint16_t(i * SparseLinear::STEP);
            to.order[slot] = efl_uint32(flat + i);
            if (TRANSPOSED) {
                const efl_uint32 turned = next[i]++;
                to_t.offsets[turned] = across;
                to_t.order[turned] = slot;
            }
            ++slot;
        });
    }
}

static efl_status sparse_linear_build(const efl_uint8* mask, efl_int64 out, efl_int64 in, efl_int64 count,
                                      efl_int64 batch, efl_uint32* structure, efl_int64, efl_uint32* order,
                                      efl_uint32* structure_t, efl_int64, efl_uint32* order_t) {
    const SparseLinear s = plan_sparse_linear(out, in, count, batch), t = plan_sparse_linear(in, out, count, batch);
    Bits bits;
    uint16_t *counts, *counts_t;
    efl_uint32 *first_slots, *first_slots_t;
    const auto layout = [&](Carve& carve) {
        bits.words = carve.take<uint64_t>(Bits::words_of(out * in));
        counts = carve.take<uint16_t>(out * s.blocks);
        first_slots = carve.take<efl_uint32>(out * s.blocks);
        counts_t = carve.take<uint16_t>(structure_t ? in * t.blocks : 0);
        first_slots_t = carve.take<efl_uint32>(structure_t ? in * t.blocks : 0);
    };
    if (!place(layout)) return EFL_NO_MEMORY;
    if (bits.fill(mask, out * in) != count) return EFL_BAD_ARGUMENT;
    const auto lists_of = [](const SparseLinear& plan, const efl_uint32* first, efl_uint32* memory,
                             efl_uint32* weights) {
        return RowLists{first, const_cast<uint16_t*>(plan.over(memory).offsets), weights};
    };
    count_rows(s, bits, counts);
    write_rows(s, counts, false, structure, first_slots);
    const RowLists to = lists_of(s, first_slots, structure, order);
    if (!structure_t) {
        each_block(s.blocks, out * in, [&](int64_t k) { place_block<false>(s, t, bits, k, to, to, nullptr); });
        return EFL_OK;
    }
    count_columns(t, mask, counts_t);
    write_rows(t, counts_t, true, structure_t, first_slots_t);
    const RowLists to_t = lists_of(t, first_slots_t, structure_t, order_t);
    each_block(s.blocks, out * in, [&](int64_t k) { place_block<true>(s, t, bits, k, to, to_t, first_slots_t); });
    return EFL_OK;
}
