// The bytes of a mask as bits, one after another, and reading them by words.

struct Bits {
    uint64_t* words;

    // With words to spare, so that any 64 bits that begin in the mask can be read.
    static int64_t words_of(int64_t count) { return count / 64 + 2; }

    // The bits first, first + 1, ..., n of them; 0 < n <= 64.
    inline uint64_t read(int64_t first, int64_t n) const {
        const uint64_t* const at = words + first / 64;
        const int shift = int(first % 64);
        return (at[0] >> shift | at[1] << 1 << (63 - shift)) & (~uint64_t(0) >> (64 - n));
    }

    int64_t count(int64_t first, int64_t n) const {
        int64_t found = 0;
        for (int64_t i = 0; i < n; i += 64) found += __builtin_popcountll(read(first + i, least(64, n - i)));
        return found;
    }

    // body(i) for each bit first + i that is set, i < n, in order.
    template <class Body>
    inline void each(int64_t first, int64_t n, const Body& body) const {
        for (int64_t i = 0; i < n; i += 64)
            for (uint64_t bits = read(first + i, least(64, n - i)); bits; bits &= bits - 1)
                body(i + __builtin_ctzll(bits));
    }

    // Bit i: whether byte i is not 0. Returns how many are not.
    int64_t fill(const efl_uint8* bytes, int64_t count) const {
        split(count / 64, 16, [=, this](int64_t first, int64_t last) {
            for (int64_t i = first; i < last; ++i) words[i] = ones_of_bytes(bytes + 64 * i);
        });
        efl_uint8 rest[64] = {};
        std::memcpy(rest, bytes + count / 64 * 64, size_t(count % 64));
        words[count / 64] = ones_of_bytes(rest);
        words[count / 64 + 1] = 0;
        int64_t ones = 0;
        for (int64_t i = 0; i <= count / 64; ++i) ones += __builtin_popcountll(words[i]);
        return ones;
    }
};
