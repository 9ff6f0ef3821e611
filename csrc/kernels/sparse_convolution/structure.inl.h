// The structures of a masked convolution's weights: how many runs of each kind every list has is added up by words, the
// lists of a cell are sorted by their weights, and one walk over the mask then places every weight in both directions.

// Where the next run of a kind goes.
struct SparseCursor {
    efl_uint32 run, slot;
};

// One of the two structures while it is built.
struct SparseDirection {
    const SparseLayout& l;
    efl_uint32 *const memory, *const order;
    SparseTaps taps = {};
    int64_t phases = l.row_phases();
    SparsePattern* patterns = nullptr;
    uint64_t* counts = nullptr;
    uint64_t* row_counts = nullptr;   // [block][row][words]: how many runs of each kind, as a list has them
    SparseCursor* cursors = nullptr;  // [block][row][kind]
    efl_uint32* buckets = nullptr;    // of a counting sort

    uint64_t* counts_of(int64_t block, int64_t row) const { return row_counts + (block * l.rows + row) * taps.words; }
    SparseCursor* cursor(int64_t block, int64_t row) const { return cursors + (block * l.rows + row) * l.kinds; }
    uint16_t* runs() const { return reinterpret_cast<uint16_t*>(memory + l.runs_at()); }

    void carve(Carve& carve) {
        const int64_t words = (l.kinds + SPARSE_FIELDS) / SPARSE_FIELDS, patterns_most = SparseTaps::patterns_of(l);
        taps.words = words;
        taps.offset = carve.take<uint32_t>(l.taps);
        taps.tap = carve.take<uint16_t>(l.taps), taps.phase = carve.take<uint16_t>(l.taps);
        taps.joins = carve.take<bool>(l.taps);
        taps.piece = carve.take<SparsePiece>(l.taps <= SPARSE_CODE ? l.taps : 0);
        patterns = carve.take<SparsePattern>(patterns_most);
        counts = carve.take<uint64_t>(patterns_most * words);
        row_counts = carve.take<uint64_t>(l.blocks * l.rows * words);
        cursors = carve.take<SparseCursor>(l.blocks * l.rows * l.kinds);
        buckets = carve.take<efl_uint32>(l.block * l.taps + 1);
    }
    void prepare() {
        prepare_taps(l, &taps, patterns, counts);
        std::memset(row_counts, 0, sizeof(uint64_t) * size_t(l.blocks * l.rows * taps.words));
    }
};

// What both directions are made of. codes: of each pair of channels the taps that it has, as bits; nullptr where they
// are read from `bits`, or where kernels are too large for either.
struct SparseBuild {
    SparseDirection forward, transposed;
    const efl_uint8* mask;
    Bits bits = {};
    uint16_t* codes = nullptr;
    efl_uint32* slots = nullptr;  // [taps], of large kernels

    bool is_listed() const { return forward.taps.pieces && transposed.taps.pieces; }
    uint64_t code(int64_t pair) const { return codes ? codes[pair] : bits.read(pair * forward.l.taps, forward.l.taps); }
};

// As many codes of small kernels as a word holds are cut from it at once.
static void read_codes(const SparseBuild& b) {
    const int64_t taps = b.forward.l.taps, pairs = b.forward.l.rows * b.forward.l.channels, each = 64 / taps;
    const uint64_t all = (uint64_t(1) << taps) - 1;
    split((pairs + each - 1) / each, each * 16, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            uint64_t word = b.bits.read(i * each * taps, 64);
            for (int64_t k = i * each; k < least(pairs, (i + 1) * each); ++k, word >>= taps)
                b.codes[k] = uint16_t(word & all);
        }
    });
}

template <int WORDS>
static inline void add_pattern(const SparsePiece* pieces, int64_t count, uint64_t code, uint64_t* sums) {
    for (int64_t i = 0; i < count; ++i) {
        const uint64_t found = code >> pieces[i].tap & ((uint64_t(1) << pieces[i].taps) - 1);
        EFL_UNROLL
        for (int w = 0; w < WORDS; ++w) sums[w] += pieces[i].counts[found * WORDS + w];
    }
}

// Rows of several phases are counted run by run.
static void count_phases(const SparseDirection& t, int64_t block, int64_t row, uint64_t code) {
    for (int64_t i = 0; i < t.taps.pieces; ++i) {
        const SparsePattern& found = t.taps.piece[i].pattern(code);
        for (int length = 1; length <= SPARSE_LONGEST; ++length)
            for (int k = 0; k < found.count[length - 1]; ++k) {
                const int64_t position = found.positions[SparsePattern::AT[length - 1] + k];
                count_run(t.counts_of(block, row + t.taps.phase[position]), t.taps.kind(t.l, position, length), 1);
            }
    }
}

// The runs of the inputs of one block, in both directions.
template <int WORDS>
static void count_block(const SparseBuild& b, int64_t block) {
    const SparseDirection &f = b.forward, &t = b.transposed;
    const int64_t first = block * f.l.block, last = least(f.l.channels, first + f.l.block);
    const int64_t pieces = f.taps.pieces, pieces_t = t.taps.pieces;
    const SparsePiece *const piece = f.taps.piece, *const piece_t = t.taps.piece;
    for (int64_t out = 0; out < f.l.rows; ++out) {
        uint64_t sums[WORDS] = {};
        const int64_t turned = out / t.l.block;
        uint64_t* counts_t = t.counts_of(turned, first * t.phases);
        for (int64_t in = first; in < last; ++in, counts_t += WORDS * t.phases) {
            const uint64_t code = b.code(out * f.l.channels + in);
            add_pattern<WORDS>(piece, pieces, code, sums);
            if (t.phases == 1) add_pattern<WORDS>(piece_t, pieces_t, code, counts_t);
            else count_phases(t, turned, in * t.phases, code);
        }
        for (int w = 0; w < WORDS; ++w) f.counts_of(block, out)[w] = sums[w];
    }
}

static efl_uint32 weights_of(const SparseLayout& l, const uint16_t* list) {
    if (!l.whole) return efl_uint32(3 * list[1] + 2 * list[2] + list[3]);
    efl_uint32 weights = 0;
    for (int64_t kind = 0; kind < l.kinds; ++kind) weights += list[1 + kind];
    return weights;
}

// Writes the lists of a cell, most weights first, then by row, and puts the cursors where their runs and slots begin.
static SparseCursor write_cell(const SparseDirection& d, int64_t part, int64_t block, SparseCursor at) {
    const SparseLayout& l = d.l;
    const int64_t rows = l.part_rows(part), first = part * l.part, size = 2 * l.list;
    const auto counts_of = [&](int64_t row) { return reinterpret_cast<uint16_t*>(d.counts_of(block, first + row)); };
    efl_uint32 most = 0, filled = 0, rank = 0;
    for (int64_t row = 0; row < rows; ++row) {
        const efl_uint32 weights = weights_of(l, counts_of(row));
        most = weights > most ? weights : most, filled += weights > 0;
    }
    std::memset(d.buckets, 0, sizeof(efl_uint32) * (most + 1));
    for (int64_t row = 0; row < rows; ++row) ++d.buckets[weights_of(l, counts_of(row))];
    for (efl_uint32 weights = most + 1; weights-- > 0;) {
        const efl_uint32 count = d.buckets[weights];
        d.buckets[weights] = rank, rank += count;
    }
    auto* const lists = reinterpret_cast<uint16_t*>(d.memory + l.lists_at(part, block));
    for (int64_t row = 0; row < rows; ++row) {
        uint16_t* const list = lists + d.buckets[weights_of(l, counts_of(row))]++ * size;
        std::memcpy(list, counts_of(row), sizeof(uint16_t) * size_t(size));
        list[0] = uint16_t(row);
    }
    reinterpret_cast<SparseCell*>(d.memory + SPARSE_HEADER)[part * l.blocks + block] = {at.slot, at.run, filled};
    const uint16_t* list = lists;
    for (efl_uint32 i = 0; i < filled; ++i, list += size) {
        SparseCursor* const cursor = d.cursor(block, first + list[0]);
        for (int64_t kind = 0; kind < l.kinds; ++kind) {
            cursor[kind] = at;
            at.run += list[1 + kind], at.slot += efl_uint32(list[1 + kind] * l.run_length(kind));
        }
    }
    return at;
}

static void write_cells(const SparseDirection& d) {
    sparse_header(d.l, d.memory);
    SparseCursor at = {0, 0};
    for (int64_t part = 0; part < d.l.parts; ++part)
        for (int64_t block = 0; block < d.l.blocks; ++block) at = write_cell(d, part, block, at);
    // Half words behind the last run.
    std::memset(d.runs() + at.run, 0, sizeof(uint16_t) * size_t((d.l.count + 1) / 2 * 2 - at.run));
}

// Inputs whose weights of one output are placed together: what these write stays in a first cache.
constexpr int64_t SPARSE_TOGETHER = 64, SPARSE_LISTED = SPARSE_TOGETHER * SPARSE_CODE;

// The inputs of a few that have weights, and which taps.
struct SparseSome {
    uint64_t code[SPARSE_TOGETHER];
    uint8_t in[SPARSE_TOGETHER];
    int64_t count;

    void find(const SparseBuild& b, int64_t pair, int64_t inputs) {
        int64_t found = 0;
        for (int64_t i = 0; i < inputs; ++i) {
            code[found] = b.code(pair + i), in[found] = uint8_t(i);
            found += code[found] != 0;
        }
        count = found;
    }
};

// The runs of one length of these inputs: the position and the input of each run.
struct SparseListed {
    uint8_t position[SPARSE_LISTED + 16], in[SPARSE_LISTED + 16];
    int64_t count;

    // Lists are copied whole, so that no branch depends on a mask.
    template <int LENGTH>
    inline int64_t put(int64_t at, const SparsePattern& pattern, int input) {
        std::memcpy(position + at, pattern.positions + SparsePattern::AT[LENGTH - 1], SparsePattern::ROOM[LENGTH - 1]);
        std::memset(in + at, input, SparsePattern::ROOM[LENGTH - 1]);
        return at + pattern.count[LENGTH - 1];
    }
};

struct SparseLengths {
    SparseListed of[SPARSE_LONGEST];

    void list(const SparseSome& some, const SparseTaps& taps) {
        int64_t ones = 0, twos = 0, threes = 0;
        for (int64_t i = 0; i < some.count; ++i)
            for (int64_t k = 0; k < taps.pieces; ++k) {
                const SparsePattern& found = taps.piece[k].pattern(some.code[i]);
                ones = of[0].put<1>(ones, found, some.in[i]);
                twos = of[1].put<2>(twos, found, some.in[i]);
                threes = of[2].put<3>(threes, found, some.in[i]);
            }
        of[0].count = ones, of[1].count = twos, of[2].count = threes;
    }
};

// Of a direction, by position: the cursor of a run of a length, behind that of its row; and what its cell and taps are.
struct SparseTables {
    uint16_t cursor[SPARSE_LONGEST][SPARSE_CODE], offset[SPARSE_CODE], tap[SPARSE_CODE + SPARSE_LONGEST];

    explicit SparseTables(const SparseDirection& d) {
        for (int64_t i = 0; i < d.l.taps; ++i) {
            offset[i] = uint16_t(d.taps.offset[i]), tap[i] = d.taps.tap[i];
            for (int length = 1; length <= SPARSE_LONGEST; ++length)
                cursor[length - 1][i] = uint16_t(d.taps.phase[i] * d.l.kinds + d.taps.kind(d.l, i, length));
        }
    }
};

// Where the cursors and cells of a few inputs are, behind those of the first.
struct SparseInputs {
    int64_t cursor[SPARSE_TOGETHER], cell[SPARSE_TOGETHER];
};

// Writes the runs of one length; put(slot, input, tap) for each weight.
template <int LENGTH, class Put>
static inline void write_runs(const SparseTables& positions, const SparseListed& listed, const SparseInputs& inputs,
                              SparseCursor* cursors, int64_t cell, uint16_t* runs, const Put& put) {
    for (int64_t i = 0; i < listed.count; ++i) {
        const int64_t position = listed.position[i], in = listed.in[i];
        SparseCursor& cursor = cursors[inputs.cursor[in] + positions.cursor[LENGTH - 1][position]];
        const SparseCursor at = cursor;
        cursor = {at.run + 1, at.slot + LENGTH};
        runs[at.run] = uint16_t(cell + inputs.cell[in] + positions.offset[position]);
        EFL_UNROLL
        for (int k = 0; k < LENGTH; ++k) put(at.slot + k, in, positions.tap[position + k]);
    }
}

template <class Put>
static inline void write_lengths(const SparseTables& positions, const SparseLengths& lengths,
                                 const SparseInputs& inputs, SparseCursor* cursors, int64_t cell, uint16_t* runs,
                                 const Put& put) {
    write_runs<1>(positions, lengths.of[0], inputs, cursors, cell, runs, put);
    write_runs<2>(positions, lengths.of[1], inputs, cursors, cell, runs, put);
    write_runs<3>(positions, lengths.of[2], inputs, cursors, cell, runs, put);
}

// Inputs first, first + 1, ...; `block` is the first one's.
static void find_inputs(const SparseBuild& b, int64_t first, int64_t inputs, int64_t block, SparseInputs* forward,
                        SparseInputs* transposed) {
    const SparseDirection &f = b.forward, &t = b.transposed;
    for (int64_t i = 0; i < inputs; ++i) {
        const int64_t of_block = (first + i) / f.l.block;
        forward->cursor[i] = (of_block - block) * f.l.rows * f.l.kinds;
        forward->cell[i] = (first + i - of_block * f.l.block) * f.l.plane;
        transposed->cursor[i] = i * t.phases * t.l.kinds, transposed->cell[i] = 0;
    }
}

// The weights of the inputs of some blocks, of a few inputs at a time.
static void place_blocks(const SparseBuild& b, int64_t first_block, int64_t blocks) {
    const SparseDirection &f = b.forward, &t = b.transposed;
    const int64_t channels = f.l.channels, taps = f.l.taps, last = least(channels, (first_block + blocks) * f.l.block);
    const SparseTables positions(f), positions_t(t);
    SparseInputs inputs, inputs_t;
    SparseSome some;
    SparseLengths lengths;
    efl_uint32 slots[SPARSE_LISTED];  // [input][tap]: where each weight lies
    efl_uint32 *const order = f.order, *const order_t = t.order;
    for (int64_t first = first_block * f.l.block, n; first < last; first += n) {
        const int64_t block = first / f.l.block;
        n = least(last - first, SPARSE_TOGETHER);
        find_inputs(b, first, n, block, &inputs, &inputs_t);
        for (int64_t out = 0; out < f.l.rows; ++out) {
            const int64_t pair = out * channels + first, flat = pair * taps, turned = out / t.l.block;
            some.find(b, pair, n);
            lengths.list(some, f.taps);
            write_lengths(positions, lengths, inputs, f.cursor(block, out), 0, f.runs(),
                          [&](efl_uint32 slot, int64_t in, int64_t tap) {
                              const int64_t at = in * taps + tap;
                              order[slot] = efl_uint32(flat + at);
                              slots[at] = slot;
                          });
            lengths.list(some, t.taps);
            write_lengths(positions_t, lengths, inputs_t, t.cursor(turned, first * t.phases),
                          (out - turned * t.l.block) * t.l.plane, t.runs(),
                          [&](efl_uint32 slot, int64_t in, int64_t tap) { order_t[slot] = slots[in * taps + tap]; });
        }
    }
}

// Writes the runs of a pair of channels of a large kernel; placed(tap, slot) for each weight.
template <class Positiond>
static void write_pair(const SparseDirection& d, SparseCursor* cursors, int64_t cell, const efl_uint8* bytes,
                       const Positiond& placed) {
    each_sought_run(d.taps, bytes, d.l.taps, [&](int64_t position, int64_t length) {
        SparseCursor& cursor = cursors[d.taps.phase[position] * d.l.kinds + d.taps.kind(d.l, position, length)];
        d.runs()[cursor.run++] = uint16_t(cell + d.taps.offset[position]);
        for (int64_t k = 0; k < length; ++k) placed(d.taps.tap[position + k], cursor.slot++);
    });
}

// The weights of a pair of channels.
static void place_pair(const SparseBuild& b, int64_t out, int64_t in, const efl_uint8* bytes) {
    const SparseDirection &f = b.forward, &t = b.transposed;
    const int64_t flat = (out * f.l.channels + in) * f.l.taps, block = in / f.l.block, turned = out / t.l.block;
    write_pair(f, f.cursor(block, out), in % f.l.block * f.l.plane, bytes, [&](int64_t tap, efl_uint32 slot) {
        f.order[slot] = efl_uint32(flat + tap);
        b.slots[tap] = slot;
    });
    write_pair(t, t.cursor(turned, in * t.phases), out % t.l.block * t.l.plane, bytes,
               [&](int64_t tap, efl_uint32 slot) { t.order[slot] = b.slots[tap]; });
}

// visit(out, in, the bytes of their taps)
template <class Visit>
static void each_large_pair(const SparseBuild& b, const Visit& visit) {
    const SparseLayout& l = b.forward.l;
    for (int64_t out = 0; out < l.rows; ++out)
        for (int64_t in = 0; in < l.channels; ++in) visit(out, in, b.mask + (out * l.channels + in) * l.taps);
}

static void build_listed(const SparseBuild& b) {
    const SparseLayout& l = b.forward.l;
    const int64_t work = l.rows * l.channels * 16;
    each_block(l.blocks, work, [&](int64_t block) { l.whole ? count_block<3>(b, block) : count_block<1>(b, block); });
    write_cells(b.forward);
    write_cells(b.transposed);
    const int64_t each = SPARSE_TOGETHER / l.block + 1;
    each_block((l.blocks + each - 1) / each, work, [&](int64_t i) { place_blocks(b, i * each, each); });
}

static void count_pair(const SparseDirection& d, int64_t block, int64_t row, const efl_uint8* bytes) {
    each_sought_run(d.taps, bytes, d.l.taps, [&](int64_t position, int64_t length) {
        count_run(d.counts_of(block, row + d.taps.phase[position]), d.taps.kind(d.l, position, length), 1);
    });
}

static void build_large(const SparseBuild& b) {
    const SparseDirection &f = b.forward, &t = b.transposed;
    each_large_pair(b, [&](int64_t out, int64_t in, const efl_uint8* bytes) {
        count_pair(f, in / f.l.block, out, bytes);
        count_pair(t, out / t.l.block, in * t.phases, bytes);
    });
    write_cells(f);
    write_cells(t);
    each_large_pair(b, [&](int64_t out, int64_t in, const efl_uint8* bytes) { place_pair(b, out, in, bytes); });
}

static efl_status sparse_conv2d_build(const efl_conv2d* conv, const efl_uint8* mask, efl_int64 count,
                                      efl_uint32* structure, efl_int64, efl_uint32* order, efl_uint32* structure_t,
                                      efl_int64, efl_uint32* order_t) {
    const SparseLayout forward(*conv, count, false), transposed(*conv, count, true);
    SparseBuild b = {.forward = {.l = forward, .memory = structure, .order = order},
                     .transposed = {.l = transposed, .memory = structure_t, .order = order_t},
                     .mask = mask};
    const int64_t pairs = forward.rows * forward.channels, positions = pairs * forward.taps;
    const bool is_small = forward.taps <= SPARSE_PIECE;
    const auto layout = [&](Carve& carve) {
        b.forward.carve(carve);
        b.transposed.carve(carve);
        b.bits.words = carve.take<uint64_t>(Bits::words_of(positions));
        b.codes = is_small ? carve.take<uint16_t>(pairs) : nullptr;
        b.slots = carve.take<efl_uint32>(forward.taps);
    };
    if (!place(layout)) return EFL_NO_MEMORY;
    if (b.bits.fill(mask, positions) != count) return EFL_BAD_ARGUMENT;
    b.forward.prepare();
    b.transposed.prepare();
    if (is_small) read_codes(b);
    b.is_listed() ? build_listed(b) : build_large(b);
    return EFL_OK;
}
