// The structures of a mask: its bytes become bits, 64 at a time, and each segment's rows are counted, sorted and
// listed.

// A mask's rows as bits, with a word to spare so that any 64 of them can be read at once.
struct MaskBits {
    uint64_t* words;
    int64_t pitch;

    static int64_t pitch_of(int64_t columns) { return columns / 64 + 2; }

    // The bits [first, first + n) of a row, n <= 64.
    uint64_t read(int64_t row, int64_t first, int64_t n) const {
        const uint64_t* const at = words + row * pitch + first / 64;
        const int shift = int(first % 64);
        const uint64_t bits = shift ? at[0] >> shift | at[1] << (64 - shift) : at[0];
        return n < 64 ? bits & ((uint64_t(1) << n) - 1) : bits;
    }

    int64_t count(int64_t row, int64_t first, int64_t n) const {
        int64_t found = 0;
        for (int64_t i = 0; i < n; i += 64) found += __builtin_popcountll(read(row, first + i, least(64, n - i)));
        return found;
    }

    // body(i) for each bit first + i that is set, i < n, in order.
    template <class Body>
    void each(int64_t row, int64_t first, int64_t n, const Body& body) const {
        for (int64_t i = 0; i < n; i += 64)
            for (uint64_t bits = read(row, first + i, least(64, n - i)); bits; bits &= bits - 1)
                body(i + __builtin_ctzll(bits));
    }
};

// Bit i: whether byte i is not 0.
static inline uint64_t bits_of_bytes(uint64_t bytes) {
    bytes |= bytes >> 4;
    bytes |= bytes >> 2;
    bytes |= bytes >> 1;
    return ((bytes & 0x0101010101010101u) * 0x0102040810204080u) >> 56;
}

// 64 bytes as bits, each group of eight by one product.
static inline uint64_t bits_of_line(const efl_uint8* bytes) {
    uint64_t bits = 0;
    for (int i = 0; i < 64; i += 8) {
        uint64_t eight;
        std::memcpy(&eight, bytes + i, 8);
        bits |= bits_of_bytes(eight) << i;
    }
    return bits;
}

// Returns how many bits are set.
static int64_t read_mask(const efl_uint8* mask, int64_t rows, int64_t columns, const MaskBits& to) {
    int64_t kept = 0;
    for (int64_t r = 0; r < rows; ++r) {
        uint64_t* bits = to.words + r * to.pitch;
        const efl_uint8 *row = mask + r * columns, *end = row + columns;
        for (; row + 64 <= end; row += 64) kept += __builtin_popcountll(*bits++ = bits_of_line(row));
        efl_uint8 rest[64] = {};
        std::memcpy(rest, row, size_t(end - row));
        kept += __builtin_popcountll(*bits++ = bits_of_line(rest));
        if (bits < to.words + (r + 1) * to.pitch) *bits = 0;
    }
    return kept;
}

// 64 x 64 bits, in place: halves of ever smaller squares change places.
static void transpose_bits(uint64_t* rows) {
    uint64_t low = 0xffffffffu;
    for (int half = 32; half > 0; half /= 2, low ^= low << half)
        for (int r = 0; r < 64; r = (r + half + 1) & ~half) {
            const uint64_t moved = (rows[r] >> half ^ rows[r + half]) & low;
            rows[r] ^= moved << half;
            rows[r + half] ^= moved;
        }
}

static void transpose_mask(const MaskBits& from, int64_t rows, int64_t columns, const MaskBits& to) {
    for (int64_t c = 0; c < columns; ++c)
        to.words[c * to.pitch + to.pitch - 1] = to.words[c * to.pitch + rows / 64] = 0;
    for (int64_t r = 0; r < rows; r += 64)
        for (int64_t c = 0; c < columns; c += 64) {
            uint64_t square[64];
            for (int64_t i = 0; i < 64; ++i) square[i] = r + i < rows ? from.words[(r + i) * from.pitch + c / 64] : 0;
            transpose_bits(square);
            for (int64_t i = 0; i < least(64, columns - c); ++i) to.words[(c + i) * to.pitch + r / 64] = square[i];
        }
}

// The rows of a panel with a bit in the block (in the first block all of them), by rising count. Returns how many.
static int64_t list_rows(const SparseLinear& s, const MaskBits& bits, int64_t panel, int64_t block, efl_uint32* entry) {
    int64_t places[SparseLinear::MOST_WIDTH + 2] = {}, counts[SparseLinear::PANEL];
    const int64_t first = s.first_row(panel), rows = s.rows_of(panel);
    for (int64_t r = 0; r < rows; ++r) {
        counts[r] = bits.count(first + r, s.first_column(block), s.columns_of(block));
        if (counts[r] || !block) ++places[counts[r] + 1];
    }
    for (int64_t n = 0; n <= SparseLinear::MOST_WIDTH; ++n) places[n + 1] += places[n];
    for (int64_t r = 0; r < rows; ++r)
        if (counts[r] || !block)
            entry[places[counts[r]]++] = efl_uint32((first + r) << SparseLinear::COUNT_BITS | counts[r]);
    return places[SparseLinear::MOST_WIDTH];
}

// Writes a structure; first_slots[row * blocks + block] is where a row's slots in a block begin.
static void write_structure(const SparseLinear& plan, const MaskBits& bits, bool transposed, efl_uint32* memory,
                            efl_uint32* first_slots) {
    const SparseLinear s = plan.over(memory);
    auto* start = const_cast<efl_uint32*>(s.starts);
    auto* const entries = const_cast<efl_uint32*>(s.entries);
    auto* const offsets = const_cast<uint16_t*>(s.offsets);
    const efl_int64 header[] = {SparseLinear::MAGIC, s.rows, s.columns, s.width, s.slots, transposed, 0, 0};
    for (int i = 0; i < SparseLinear::HEADER; ++i) memory[i] = efl_uint32(header[i]);
    int64_t listed = 0, slot = 0;
    for (int64_t p = 0; p < s.panels; ++p)
        for (int64_t k = 0; k < s.blocks; ++k) {
            *start++ = efl_uint32(listed), *start++ = efl_uint32(slot);
            const int64_t end = listed + list_rows(s, bits, p, k, entries + listed);
            for (; listed < end; ++listed) {
                const int64_t row = SparseLinear::row(entries[listed]);
                first_slots[row * s.blocks + k] = efl_uint32(slot);
                bits.each(row, s.first_column(k), s.columns_of(k),
                          [&](int64_t i) { offsets[slot++] = uint16_t(SparseLinear::STEP * i); });
            }
        }
    *start++ = efl_uint32(listed), *start++ = efl_uint32(slot);
    std::memset(entries + listed, 0, sizeof(efl_uint32) * size_t(s.rows * s.blocks - listed));
    std::memset(offsets + slot, 0, sizeof(uint16_t) * (2 + slot % 2));
}

// order[slot] = the weight's flat index.
static void list_weights(const SparseLinear& s, const MaskBits& bits, const efl_uint32* first_slots,
                         efl_uint32* order) {
    for (int64_t r = 0; r < s.rows; ++r)
        for (int64_t k = 0; k < s.blocks; ++k) {
            efl_uint32* slot = order + first_slots[r * s.blocks + k];
            const int64_t flat = r * s.columns + s.first_column(k);
            bits.each(r, s.first_column(k), s.columns_of(k), [&](int64_t i) { *slot++ = efl_uint32(flat + i); });
        }
}

// order_t[transposed slot] = the slot. Moves first_slots_t on.
static void list_slots(const SparseLinear& s, const SparseLinear& t, const MaskBits& bits,
                       const efl_uint32* first_slots, efl_uint32* first_slots_t, efl_uint32* order_t) {
    for (int64_t r = 0; r < s.rows; ++r)
        for (int64_t k = 0; k < s.blocks; ++k) {
            efl_uint32 slot = first_slots[r * s.blocks + k];
            efl_uint32* const next = first_slots_t + s.first_column(k) * t.blocks + r / t.width;
            bits.each(r, s.first_column(k), s.columns_of(k),
                      [&](int64_t i) { order_t[next[i * t.blocks]++] = slot++; });
        }
}

static efl_status sparse_linear_build(const efl_uint8* mask, efl_int64 out, efl_int64 in, efl_int64 count,
                                      efl_int64 batch, efl_uint32* structure, efl_int64, efl_uint32* order,
                                      efl_uint32* structure_t, efl_int64, efl_uint32* order_t) {
    const SparseLinear s = plan_sparse_linear(out, in, count, batch), t = plan_sparse_linear(in, out, count, batch);
    MaskBits bits{nullptr, MaskBits::pitch_of(in)}, bits_t{nullptr, MaskBits::pitch_of(out)};
    efl_uint32 *first_slots = nullptr, *first_slots_t = nullptr;
    const auto layout = [&](Carve& carve) {
        bits.words = carve.take<uint64_t>(out * bits.pitch);
        first_slots = carve.take<efl_uint32>(out * s.blocks);
        if (!structure_t) return;
        bits_t.words = carve.take<uint64_t>(in * bits_t.pitch);
        first_slots_t = carve.take<efl_uint32>(in * t.blocks);
    };
    if (!place(layout)) return EFL_NO_MEMORY;
    if (read_mask(mask, out, in, bits) != count) return EFL_BAD_ARGUMENT;
    write_structure(s, bits, false, structure, first_slots);
    list_weights(s, bits, first_slots, order);
    if (!structure_t) return EFL_OK;
    transpose_mask(bits, out, in, bits_t);
    write_structure(t, bits_t, true, structure_t, first_slots_t);
    list_slots(s, t, bits, first_slots, first_slots_t, order_t);
    return EFL_OK;
}
