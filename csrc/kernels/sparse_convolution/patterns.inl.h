// The runs that the weights between two channels form: looked up by which of their taps there are, or sought one by one
// where a kernel is too large for that.

constexpr int64_t SPARSE_PIECE = 9;   // taps whose patterns are listed
constexpr int64_t SPARSE_CODE = 64;   // taps that fit in a word
constexpr int64_t SPARSE_FIELDS = 4;  // 16-bit fields of a word: as a list, the row and then how many of each kind

constexpr int SPARSE_LONGEST = 3;  // weights of a run

// The runs of one pattern, by their length - 1: how many, and the positions of their first weights, in order.
struct SparsePattern {
    static constexpr int ROOM[] = {16, 4, 4}, AT[] = {0, 16, 20};  // each list is copied whole
    uint8_t positions[24], count[SPARSE_LONGEST], weights;
};

// Taps that follow each other and form runs of their own.
struct SparsePiece {
    int64_t tap, taps, position;
    const SparsePattern* patterns;  // [2^taps]
    const uint64_t* counts;         // [2^taps][words]: how many runs of each kind

    const SparsePattern& pattern(uint64_t code) const { return patterns[code >> tap & ((uint64_t(1) << taps) - 1)]; }
};

// The taps of a direction in the order of their positions: by the phase of their rows, then by their cells.
struct SparseTaps {
    uint32_t* offset;  // the cell
    uint16_t *tap, *phase;
    bool* joins;  // whether the next position's cell lies just behind
    SparsePiece* piece;
    int64_t pieces;  // none: patterns are not listed
    int64_t words;   // of counts

    static int64_t patterns_of(const SparseLayout& l) {
        if (l.taps <= SPARSE_PIECE) return int64_t(1) << l.taps;
        return l.taps > SPARSE_CODE ? 0 : (l.taps / SPARSE_PIECE + 1) << SPARSE_PIECE;
    }
    int64_t kind(const SparseLayout& l, int64_t position, int64_t length) const {
        if (!l.whole) return 3 - length;
        return l.transposed ? 8 - tap[position] : tap[position];
    }
};

static void sort_taps(const SparseLayout& l, const SparseTaps& t) {
    const auto before = [&](int64_t phase, int64_t offset, int64_t position) {
        if (l.whole) return false;
        return phase != t.phase[position] ? phase < t.phase[position] : offset < t.offset[position];
    };
    for (int64_t tap = 0; tap < l.taps; ++tap) {
        const int64_t phase = l.row_phase(tap), offset = l.offset(tap);
        int64_t at = tap;
        for (; at > 0 && before(phase, offset, at - 1); --at)
            t.tap[at] = t.tap[at - 1], t.phase[at] = t.phase[at - 1], t.offset[at] = t.offset[at - 1];
        t.tap[at] = uint16_t(tap), t.phase[at] = uint16_t(phase), t.offset[at] = uint32_t(offset);
    }
    for (int64_t i = 0; i < l.taps; ++i)
        t.joins[i] = !l.whole && i + 1 < l.taps && t.phase[i + 1] == t.phase[i] && t.offset[i + 1] == t.offset[i] + 1;
}

// Where the positions from `position` on that are joined end; `first`: the lowest of their taps.
static int64_t end_of_chain(const SparseLayout& l, const SparseTaps& t, int64_t position, int64_t* first) {
    *first = t.tap[position];
    for (; position + 1 < l.taps && t.joins[position]; ++position) *first = least(*first, t.tap[position + 1]);
    return position + 1;
}

// Cuts the kernel into its chains; into none if one is long, or its taps do not follow each other.
static int64_t find_chains(const SparseLayout& l, const SparseTaps& t) {
    int64_t found = 0;
    for (int64_t position = 0, first; position < l.taps;) {
        const int64_t end = end_of_chain(l, t, position, &first);
        bool follows = end - position <= SPARSE_PIECE;
        for (int64_t i = position; i < end; ++i) follows = follows && t.tap[i] < first + end - position;
        if (!follows) return 0;
        t.piece[found++] = {first, end - position, position, nullptr, nullptr};
        position = end;
    }
    return found;
}

// A small kernel is one piece, but where its patterns would take longer to list than all pairs with three pieces each.
static void find_pieces(const SparseLayout& l, SparseTaps* t) {
    constexpr int64_t MANY = 1024;
    const bool is_small = l.taps <= SPARSE_PIECE;
    t->pieces = l.taps > SPARSE_CODE || (is_small && l.rows * l.channels >= MANY) ? 0 : find_chains(l, *t);
    if (!t->pieces && is_small) t->piece[t->pieces++] = {0, l.taps, 0, nullptr, nullptr};
}

// Adds one to the runs of a kind.
static inline void count_run(uint64_t* counts, int64_t kind, int64_t by) {
    const int64_t field = 1 + kind;
    counts[field / SPARSE_FIELDS] += uint64_t(by) << 16 * (field % SPARSE_FIELDS);
}

// Each pattern is one with a position less, whose last run grows or is followed by another.
static void list_patterns(const SparseLayout& l, const SparseTaps& t, const SparsePiece& piece, SparsePattern* patterns,
                          uint64_t* counts) {
    uint16_t codes[1 << SPARSE_PIECE];
    uint8_t lasts[1 << SPARSE_PIECE];  // the length of a pattern's last run
    codes[0] = 0, lasts[0] = 0, patterns[0] = {};
    for (int64_t w = 0; w < t.words; ++w) counts[w] = 0;
    for (int64_t positions = 1; positions < int64_t(1) << piece.taps; ++positions) {
        const int last = 63 - __builtin_clzll(uint64_t(positions)), fewer = int(positions - (int64_t(1) << last));
        const int64_t position = piece.position + last, code = codes[fewer] | 1 << (t.tap[position] - piece.tap);
        SparsePattern& made = patterns[code] = patterns[codes[fewer]];
        uint64_t* const counted = counts + code * t.words;
        for (int64_t w = 0; w < t.words; ++w) counted[w] = counts[codes[fewer] * t.words + w];
        const bool follows = last > 0 && fewer >> (last - 1) & 1 && t.joins[position - 1];
        const int length = follows && lasts[fewer] < SPARSE_LONGEST ? lasts[fewer] + 1 : 1;
        if (length > 1) {
            --made.count[length - 2];
            count_run(counted, t.kind(l, position - 1, length - 1), -1);
        }
        made.positions[SparsePattern::AT[length - 1] + made.count[length - 1]++] = uint8_t(position + 1 - length);
        ++made.weights;
        count_run(counted, t.kind(l, position, length), 1);
        codes[positions] = uint16_t(code), lasts[positions] = uint8_t(length);
    }
}

static void prepare_taps(const SparseLayout& l, SparseTaps* t, SparsePattern* patterns, uint64_t* counts) {
    sort_taps(l, *t);
    find_pieces(l, t);
    for (int64_t i = 0; i < t->pieces; ++i) {
        SparsePiece& piece = t->piece[i];
        piece.patterns = patterns, piece.counts = counts;
        list_patterns(l, *t, piece, patterns, counts);
        patterns += int64_t(1) << piece.taps, counts += t->words << piece.taps;
    }
}

// visit(position, length) for the runs of a pair, whose taps are those with a byte that is not 0.
template <class Visit>
static void each_sought_run(const SparseTaps& t, const efl_uint8* bytes, int64_t taps, const Visit& visit) {
    for (int64_t position = 0; position < taps; ++position) {
        if (!bytes[t.tap[position]]) continue;
        int64_t length = 1;
        while (length < SPARSE_LONGEST && t.joins[position + length - 1] && bytes[t.tap[position + length]]) ++length;
        visit(position, length);
        position += length - 1;
    }
}
