// Dropout: y = x times 0 or a scale, by bits of a counter-based stream; the same call, on dy, is its backward pass.
// Uniform numbers of the same stream.

constexpr int64_t DROPOUT_WORK = 8;  // times that of an addition

// A plane times its factor.
static inline void scale_run(float factor, const float* x, int64_t n, float* y) {
    const vf by = set1(factor);
    int64_t i = 0;
    for (; i + W <= n; i += W) store(y + i, mul(load(x + i), by));
    if (i < n) store_n(y + i, mul(load_n(x + i, int(n - i)), by), int(n - i));
}

static efl_status dropout_f32(const efl_dropout* d, const float* x, const efl_int64* state, efl_index channels_needed,
                              float* y) {
    const int64_t size = d->channels * d->inner, needed = count_of(channels_needed, d->channels);
    if (!d->whole && !channels_needed.ids) {
        const int64_t segment = 16 * TILE_VALUES, segments = (size + segment - 1) / segment;
        split(d->batch * segments, segment * DROPOUT_WORK, [=](int64_t first, int64_t last) {
            for (int64_t i = first; i < last; ++i) {
                const int64_t b = i / segments, from = i % segments * segment;
                Kept(d, state, b).run(x + b * size, from, least(size, from + segment), y + b * size);
            }
        });
        return EFL_OK;
    }
    split(d->batch, needed * d->inner * DROPOUT_WORK, [=](int64_t first, int64_t last) {
        for (int64_t b = first; b < last; ++b) {
            Kept kept(d, state, b);
            for (int64_t j = 0; j < needed; ++j) {
                const int64_t c = id_of(channels_needed, j), at = c * d->inner;
                if (d->whole) scale_run(kept.factor(c), x + b * size + at, d->inner, y + b * size + at);
                else kept.run(x + b * size, at, at + d->inner, y + b * size);
            }
        }
    });
    return EFL_OK;
}

// The numbers of one example: each tile takes the words of its blocks.
static void uniform_run(const efl_int64* state, int64_t b, int64_t node, int64_t count, float* y) {
    for (int64_t start = 0; start < count; start += TILE_VALUES) {
        uint32_t words[TILE_VALUES];
        for (int i = 0; i < TILE_BLOCKS; i += W) {
            const uint32_t block = uint32_t(start / TILE_VALUES * TILE_BLOCKS + i);
            const Philox found(uint64_t(state[0]), block, uint32_t(state[2] + b), uint32_t(state[1]), uint32_t(node));
            const vu* const parts[4] = {&found.c0, &found.c1, &found.c2, &found.c3};
            for (int k = 0; k < 4; ++k) memcpy(words + k * TILE_BLOCKS + i, parts[k], sizeof(vu));
        }
        const int values = int(least(count - start, int64_t(TILE_VALUES)));
        for (int i = 0; i < values; ++i) y[start + i] = float(int32_t(2 * (words[i] >> 9) + 1)) * 0x1p-24f;
    }
}

static efl_status uniform_f32(const efl_int64* state, efl_int64 batch, efl_int64 count, efl_int64 node, float* y) {
    split(batch, count * DROPOUT_WORK, [=](int64_t first, int64_t last) {
        for (int64_t b = first; b < last; ++b) uniform_run(state, b, node, count, y + b * count);
    });
    return EFL_OK;
}
