// Masks as bytes: static rANS over the bytes of a mask's bits, whose shares follow from how many of the bits are ones.
//
// Eight bits are a symbol. Of SLOTS slots a byte with c ones has share.of[c], about SLOTS p^c (1 - p)^(8 - c); bytes
// that come to less than half a slot follow an escape as they are. Byte i belongs to state i % 4, so that the states'
// chains of multiplications overlap. What a code looks like is told in edgefl/protocol/codec/entropy_code.py. Source:
// J. Duda, "Asymmetric numeral systems" (2013); F. Giesen, "Interleaved entropy coders" (2014).

namespace rans {

constexpr int SLOT_BITS = 13;  // with 12 a mask of density .01 takes 1.3 % more than it must, with 13 .2 %
constexpr uint32_t SLOTS = 1u << SLOT_BITS, LOWEST = 1u << 16;  // states are in [LOWEST, 2^32)
constexpr int64_t HEAD = 16;                                    // bytes of the four states
constexpr int64_t GROUP = 16;                                   // the most that four symbols take
constexpr uint32_t CHOOSE[9] = {1, 8, 28, 56, 70, 56, 28, 8, 1};

struct Shares {
    uint32_t of[9];
    uint32_t escape;
};

// The share of bytes with c ones, times 2^40: each factor is a multiple of 2^-16, and products are rounded down.
static uint64_t share(uint64_t one, int c) {
    uint64_t product = uint64_t(1) << 40;
    for (int bit = 0; bit < 8; ++bit) product = product * (bit < c ? one : 65536 - one) >> 16;
    return product;
}

static Shares shares(int64_t n, int64_t few) {
    const uint64_t all = n ? uint64_t(n) : 1, one = (uint64_t(few) * 131072 + all) / (2 * all);
    constexpr int UNIT = 40 - SLOT_BITS;  // log2 of a slot
    Shares found{};
    uint64_t rare = 0;
    uint32_t taken = 0;
    for (int c = 1; c <= 8; ++c) {
        const uint64_t exact = share(one, c);
        found.of[c] = exact >> (UNIT - 1) == 1 ? 1 : uint32_t(exact >> UNIT);
        taken += CHOOSE[c] * found.of[c];
        if (found.of[c] == 0) rare += CHOOSE[c] * exact, found.escape = 1;
    }
    if (rare >> UNIT > 1) found.escape = uint32_t(rare >> UNIT);
    found.of[0] = SLOTS - taken - found.escape;
    return found;
}

// Symbols are laid out by increasing byte, the escape last.
template <class Symbol>
static void lay_out(const Shares& shares, Symbol&& symbol) {
    uint32_t start = 0;
    for (int byte = 0; byte < 257; ++byte) {
        const uint32_t share = byte < 256 ? shares.of[__builtin_popcount(unsigned(byte))] : shares.escape;
        symbol(byte, share, start);
        start += share;
    }
}

struct Encoding {
    static constexpr int SHIFT = 32 + SLOT_BITS;
    struct Symbol {
        uint64_t
            inverse;  // 2^SHIFT / share, rounded up: x * inverse >> SHIFT is x / share for the states that come to it
        uint32_t share, start;
    };
    Symbol symbols[257];

    explicit Encoding(const Shares& shares) {
        lay_out(shares, [this](int byte, uint32_t share, uint32_t start) {
            symbols[byte] = {share ? ((uint64_t(1) << SHIFT) + share - 1) / share : 0, share, start};
        });
    }
};

struct Decoding {
    struct Symbol {
        uint16_t share, start;
    };
    uint8_t slots[SLOTS];  // the byte that a slot belongs to; of the escape's, anything
    Symbol symbols[257];

    explicit Decoding(const Shares& shares) {
        lay_out(shares, [this](int byte, uint32_t share, uint32_t start) {
            symbols[byte] = {uint16_t(share), uint16_t(start)};
            memset(slots + start, byte & 255, share);
        });
    }
};

// Of ones and zeros the fewer are coded: all bits are inverted if those are the zeros.
struct Half {
    int64_t few;
    uint32_t flip;

    Half(int64_t n, int64_t ones) : few(2 * ones > n ? n - ones : ones), flip(2 * ones > n ? 255 : 0) {}
};

// Eight booleans to a byte and back; the first is the lowest bit.
static inline uint32_t pack(const uint8_t* bits) {
    uint64_t word;
    memcpy(&word, bits, 8);
    return uint32_t(word * 0x0102040810204080u >> 56);
}

static inline void unpack(uint32_t byte, uint8_t* bits) {
    const uint64_t picked = byte * 0x0101010101010101u & 0x8040201008040201u;
    const uint64_t word = (picked + 0x7f7f7f7f7f7f7f7fu) >> 7 & 0x0101010101010101u;
    memcpy(bits, &word, 8);
}

// The last, shorter byte.
static uint32_t pack_some(const uint8_t* bits, int64_t count) {
    uint8_t whole[8] = {};
    memcpy(whole, bits, size_t(count));
    return pack(whole);
}

static void unpack_some(uint32_t byte, uint8_t* bits, int64_t count) {
    uint8_t whole[8];
    unpack(byte, whole);
    memcpy(bits, whole, size_t(count));
}

// Words of 16 bits, written downwards. Whether one is needed is random: no branch, but a store that may not count.
struct Writer {
    uint8_t* at;

    inline uint32_t drain(uint32_t state, bool is_full) {
        const uint16_t low = uint16_t(state);
        memcpy(at - 2, &low, 2);
        at -= is_full * 2;
        return state >> is_full * 16;
    }

    inline void head(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
        const uint32_t states[4] = {a, b, c, d};
        at -= HEAD;
        memcpy(at, states, HEAD);
    }
};

static inline uint32_t encode_symbol(uint32_t state, const Encoding::Symbol& symbol, Writer& out) {
    state = out.drain(state, state >> (32 - SLOT_BITS) >= symbol.share);
    const uint32_t quotient = uint32_t(state * symbol.inverse >> Encoding::SHIFT);
    return (quotient << SLOT_BITS) + (state - quotient * symbol.share) + symbol.start;
}

static inline uint32_t encode_byte(uint32_t state, uint32_t byte, const Encoding& encoding, Writer& out) {
    const Encoding::Symbol& symbol = encoding.symbols[byte];
    if (__builtin_expect(symbol.share != 0, 1)) return encode_symbol(state, symbol, out);
    return encode_symbol(out.drain(state, state >> 24) << 8 | byte, encoding.symbols[256], out);
}

// `fits` says that the words of a whole group are there; else each is looked for, and a missing one is noted.
struct Reader {
    const uint8_t *at, *end;
    bool is_short = false;

    inline uint32_t state() {
        uint32_t found;
        memcpy(&found, at, 4);
        at += 4;
        return found;
    }

    template <bool fits>
    inline uint32_t refill(uint32_t state) {
        const bool is_empty = state < LOWEST;
        uint16_t low = 0;
        if (!fits && end - at < 2) return is_short |= is_empty, is_empty ? LOWEST : state;
        memcpy(&low, at, 2);
        at += is_empty * 2;
        return state << is_empty * 16 | (low & -uint32_t(is_empty));
    }
};

template <bool fits>
static inline uint32_t decode_byte(uint32_t& state, const Decoding& decoding, Reader& in) {
    const uint32_t slot = state & (SLOTS - 1), byte = decoding.slots[slot];
    const Decoding::Symbol escape = decoding.symbols[256];
    const bool is_plain = slot < escape.start;
    const Decoding::Symbol symbol = is_plain ? decoding.symbols[byte] : escape;
    state = in.refill<fits>(symbol.share * (state >> SLOT_BITS) + slot - symbol.start);
    if (__builtin_expect(is_plain, 1)) return byte;
    const uint32_t raw = state & 255;
    state = in.refill<fits>(state >> 8);
    return raw;
}

}  // namespace rans

static efl_status encode_mask(const efl_uint8* bits, efl_int64 n, efl_int64 ones, efl_uint8* code, efl_int64 room,
                              efl_int64* size) {
    using namespace rans;
    const Half half(n, ones);
    const Encoding encoding(shares(n, half.few));
    uint32_t a = LOWEST, b = LOWEST, c = LOWEST, d = LOWEST;  // an array would lie in memory
    Writer out{code + room};
    const auto encode = [&](uint32_t& state, uint32_t byte) { state = encode_byte(state, byte, encoding, out); };
    uint32_t* const states[4] = {&a, &b, &c, &d};
    int64_t i = n / 8;
    if (n % 8) encode(*states[i % 4], pack_some(bits + 8 * i, n % 8) ^ half.flip >> (8 - n % 8));
    for (; i % 4; --i) encode(*states[(i - 1) % 4], pack(bits + 8 * i - 8) ^ half.flip);
    for (; i > 0; i -= 4) {
        encode(d, pack(bits + 8 * i - 8) ^ half.flip);
        encode(c, pack(bits + 8 * i - 16) ^ half.flip);
        encode(b, pack(bits + 8 * i - 24) ^ half.flip);
        encode(a, pack(bits + 8 * i - 32) ^ half.flip);
    }
    out.head(a, b, c, d);
    *size = code + room - out.at;
    return EFL_OK;
}

static efl_status decode_mask(const efl_uint8* code, efl_int64 room, efl_int64 ones, efl_uint8* bits, efl_int64 n,
                              efl_int64* size) {
    using namespace rans;
    *size = -1;
    if (room < HEAD) return EFL_OK;
    const Half half(n, ones);
    const Decoding decoding(shares(n, half.few));
    Reader in{code, code + room};
    uint32_t a = in.state(), b = in.state(), c = in.state(), d = in.state();
    if (a < LOWEST || b < LOWEST || c < LOWEST || d < LOWEST) return EFL_OK;
    int64_t i = 0, found = 0;
    const auto put = [&](uint32_t byte, int64_t at) { unpack(byte ^ half.flip, bits + 8 * at); };
    for (; i + 4 <= n / 8 && in.end - in.at >= GROUP; i += 4) {
        const uint32_t first = decode_byte<true>(a, decoding, in), second = decode_byte<true>(b, decoding, in);
        const uint32_t third = decode_byte<true>(c, decoding, in), fourth = decode_byte<true>(d, decoding, in);
        found += __builtin_popcount(first | second << 8 | third << 16 | fourth << 24);
        put(first, i), put(second, i + 1), put(third, i + 2), put(fourth, i + 3);
    }
    uint32_t states[4] = {a, b, c, d};
    for (; i < (n + 7) / 8; ++i) {
        const uint32_t byte = decode_byte<false>(states[i % 4], decoding, in);
        const int64_t left = n - 8 * i;
        found += __builtin_popcount(byte);
        if (left >= 8) put(byte, i);
        else if (byte >> left) return EFL_OK;
        else unpack_some(byte ^ half.flip, bits + 8 * i, left);
    }
    const bool ends = states[0] == LOWEST && states[1] == LOWEST && states[2] == LOWEST && states[3] == LOWEST;
    if (ends && !in.is_short && found == half.few) *size = in.at - code;
    return EFL_OK;
}
