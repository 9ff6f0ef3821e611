// Weights in packed memory, a vector of outputs at a time.

// Whether codes lie as the groups of a sum already, where they may be read by four bytes.
static bool lie_in_groups(const Int8Layer& l, const int8_t* codes) {
    return sizeof(Code) == 1 && l.c.in_channels % CODES == 0 && reinterpret_cast<uintptr_t>(codes) % 4 == 0;
}

// The codes of an output as the groups of a sum, [tap][block][CODES], of codes [tap][channel].
static void stage_row(const Int8Layer& l, const int8_t* __restrict from, Code* __restrict to) {
    const int64_t channels = l.c.in_channels;
    for (int64_t t = 0; t < l.taps(); ++t, from += channels) {
        for (int64_t k = 0; k < channels; ++k) to[k] = Code(from[k]);
        for (int64_t k = channels; k < l.blocks * CODES; ++k) to[k] = 0;
        to += l.blocks * CODES;
    }
}

// to[group][output][CODES] of rows [group][CODES].
static void put_side_by_side(const Int8Layer& l, const Code* const (&rows)[OUTS], Code* to) {
    if constexpr (OUTS == W && WORDS == 1) {
        const float* from[OUTS];  // four bytes each, which are moved alone
        for (int m = 0; m < OUTS; ++m) from[m] = reinterpret_cast<const float*>(rows[m]);
        interleave(from, OUTS, l.groups, reinterpret_cast<float*>(to), OUTS);
    } else {
        for (int64_t g = 0; g < l.groups; ++g)
            for (int m = 0; m < OUTS; ++m)
                __builtin_memcpy(to + (g * OUTS + m) * CODES, rows[m] + g * CODES, CODES * sizeof(Code));
    }
    for (int64_t g = 0; g < l.groups; ++g) settle(to + g * OUTS * CODES);
}

// Vector v of the weights. `staged` has room for OUTS rows.
static void pack_vector(const Int8Layer& l, const int8_t* codes, int64_t v, Code* staged, Code* to) {
    const int64_t terms = l.taps() * l.c.in_channels, row = l.groups * CODES;
    const Code* rows[OUTS];
    for (int64_t m = 0; m < OUTS; ++m) {
        const int64_t out = v * OUTS + m;
        const int8_t* const from = codes + out * terms;
        const bool is_there = out < l.c.out_channels;
        rows[m] = staged + m * row;
        if (is_there && lie_in_groups(l, codes)) rows[m] = reinterpret_cast<const Code*>(from);
        else if (is_there) stage_row(l, from, staged + m * row);
        else std::memset(staged + m * row, 0, size_t(row) * sizeof(Code));
    }
    put_side_by_side(l, rows, to);
}
