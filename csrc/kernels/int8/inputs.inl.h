// The inputs of an image as int8 codes, and what a code stands for: the largest magnitude over 127. Codes are rounded
// to nearest even. An image that has a value that is not finite stands for NaN.

constexpr float MOST_CODE = 127.0f;
constexpr uint32_t INFINITE = 0x7f800000, SMALLEST = 0x0d800000;  // bits of infinity, and of 2^-100

static inline uint32_t bits_of(float value) {
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint32_t largest_magnitude(const float* x, int64_t count) {
    uint32_t largest = 0;
    for (int64_t i = 0; i < count; ++i) {
        const uint32_t magnitude = bits_of(x[i]) & 0x7fffffff;
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
}

// The code in the low bits of the word: a sum with 1.5 * 2^23 is rounded to a whole number.
static inline uint32_t code_of(float value, float inverse) { return bits_of(value * inverse + 12582912.0f); }

constexpr int IN_WORD = 4 / int(sizeof(Code));  // codes of four bytes
constexpr int WORDS = CODES / IN_WORD;

constexpr int64_t CELLS = 64;  // that are rounded together

// Codes [cell][CODES] of up to CELLS cells that lie side by side, from the cell `first` on of CODES channels: four
// bytes in the place of a float, which are moved alone.
static void round_cells(const float* const (&x)[CODES], int64_t first, int64_t count, float inverse,
                        float* __restrict to) {
    constexpr uint32_t LOW = IN_WORD == 4 ? 0xff : 0xffff, OFFSETS = uint32_t(OFFSET) * 0x01010101u;
    EFL_UNROLL
    for (int w = 0; w < WORDS; ++w) {
        const float* from[IN_WORD];
        for (int k = 0; k < IN_WORD; ++k) from[k] = x[w * IN_WORD + k] + first;
        for (int64_t i = 0; i < count; ++i) {
            uint32_t word = 0;
            EFL_UNROLL
            for (int k = 0; k < IN_WORD; ++k) word |= (code_of(from[k][i], inverse) & LOW) << (32 / IN_WORD * k);
            word ^= OFFSETS;
            __builtin_memcpy(to + i * WORDS + w, &word, sizeof word);
        }
    }
}

// Channels beyond the last are codes of any value, which meet weights of 0.
static void fill_block(const Int8Layer& l, const float* image, int64_t block, float inverse, Code* to) {
    const float* from[CODES];
    for (int64_t k = 0; k < CODES; ++k) {
        const int64_t channel = block * CODES + k;
        from[k] = image + (channel < l.c.in_channels ? channel : block * CODES) * l.cells();
    }
    const int64_t width = l.cols == l.c.width ? l.cells() : l.c.width;  // cells that stay side by side
    float* row = reinterpret_cast<float*>(to) + (l.c.pad_h * l.cols + l.c.pad_w) * WORDS;
    int64_t column = 0;
    float rounded[CELLS * WORDS + W];
    for (int64_t done = 0; done < l.cells(); done += CELLS) {
        const int64_t count = least(CELLS, l.cells() - done);
        round_cells(from, done, count, inverse, rounded);
        for (int64_t i = 0, n; i < count; i += n) {
            n = least(width - column, count - i);
            copy_floats(row + column * WORDS, rounded + i * WORDS, n * WORDS);
            column += n;
            if (column == width) column = 0, row += l.cols * WORDS;
        }
    }
}

// The codes of an image of one cell, whose channels lie side by side in packed memory, too.
static void write_channels(const float* __restrict x, int64_t count, float inverse, Code* __restrict to) {
    for (int64_t k = 0; k < count; ++k) to[k] = Code(int32_t(code_of(x[k], inverse) << 16) >> 16) ^ Code(OFFSET);
}

// The codes of an image, and the value of code 1.
static float fill_image(const Int8Layer& l, const float* image, Code* to) {
    const uint32_t largest = largest_magnitude(image, l.c.in_channels * l.cells());
    const bool is_zero = largest < SMALLEST, is_finite = largest < INFINITE;
    float magnitude;
    __builtin_memcpy(&magnitude, &largest, sizeof magnitude);
    const float inverse = is_zero || !is_finite ? 0.0f : MOST_CODE / magnitude;
    const bool is_padded = l.c.pad_h || l.c.pad_w;
    if (is_padded) std::memset(to, OFFSET, size_t(l.image_codes()) * sizeof(Code));
    if (l.cells() == 1 && !is_padded) write_channels(image, l.c.in_channels, inverse, to);
    else
        for (int64_t k = 0; k < l.blocks; ++k) fill_block(l, image, k, inverse, to + k * l.rows * l.cols * CODES);
    return is_zero ? 0.0f : is_finite ? magnitude / MOST_CODE : NAN;
}
