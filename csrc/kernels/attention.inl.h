// Attention by heads. Scores lie with the positions that ask side by side, [keys][queries]: then every product is one
// of tile.inl.h, and a softmax goes down the columns without a sum across a vector. Of causal attention a vector of
// queries meets the keys up to its last one only.

struct Attention {
    efl_attention shape;
    int64_t size, room, step;  // of a head; positions in whole vectors; columns to which the same keys count
    float scale;

    explicit Attention(const efl_attention& s)
        : shape(s), size(s.channels / s.heads), room(whole_vectors(s.places)), step(s.causal ? W : room),
          scale(1.0f / std::sqrt(float(size > 0 ? size : 1))) {}

    int64_t positions() const { return shape.places; }
    int64_t macs(int64_t products) const { return products * size * positions() * positions(); }
    int64_t keys(int64_t query) const { return shape.causal ? least(positions(), query + step) : positions(); }
    int64_t columns(int64_t first) const { return least(step, positions() - first); }

    // Channel c of a head's queries (part 0), keys (1) or values (2) in qkv.
    int64_t at(int64_t image, int64_t part, int64_t head) const {
        return ((image * 3 + part) * shape.channels + head * size) * positions();
    }
    int64_t result_at(int64_t image, int64_t head) const {
        return (image * shape.channels + head * size) * positions();
    }
    int64_t shares_at(int64_t image, int64_t head) const {
        return (image * shape.heads + head) * positions() * positions();
    }

    Tiles tiles(const float* a, bool by_rows, const float* b, int64_t terms, float* c, int64_t c_pitch) const {
        return Tiles{
            .a = a,
            .a_pitch = positions(),
            .by_rows = by_rows,
            .b = b,
            .b_pitch = room,
            .b_step = 0,
            .b_far = false,
            .keep = nullptr,
            .keep_step = 0,
            .terms = terms,
            .start = nullptr,
            .c = c,
            .c_pitch = c_pitch,
            .add = false,
            .chosen = nullptr,
        };
    }

    // c[j][i] = sum over the channels of a[:, j] b[:, i], c with rows of whole vectors.
    void pairs(const float* a, const float* b, float* c) const {
        for (int64_t j = 0; j < positions(); j += step)
            small_product(tiles(a + j, false, b + j, size, c + j * room + j, room), columns(j), positions() - j);
    }

    // c[:, i] = sum over the keys j of a[:, j] b[j][i].
    void over_keys(const float* a, const float* b, float* c) const {
        for (int64_t i = 0; i < positions(); i += step)
            small_product(tiles(a, true, b + i, keys(i), c + i, positions()), size, columns(i));
    }

    // c[:, j] = sum over the queries i of a[:, i] b[i][j].
    void over_queries(const float* a, const float* b, float* c) const {
        for (int64_t j = 0; j < positions(); j += step) {
            const int64_t first = shape.causal ? j : 0;
            small_product(tiles(a + first, true, b + first * room + j, positions() - first, c + j, positions()), size,
                          columns(j));
        }
    }

    // to [rows][room] = factor times from [rows][positions], and zeros up to whole vectors.
    void widen(const float* from, int64_t rows, float factor, float* to) const {
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t i = 0; i < positions(); i += W)
                store(to + r * room + i,
                      mul(set1(factor), part(from + r * positions() + i, int(least(W, positions() - i)))));
    }

    // to [positions][room], turned.
    void turned(const float* from, int64_t pitch, float* to) const {
        transpose(from, pitch, positions(), positions(), to, room);
        for (int64_t i = 0; i < positions(); ++i) zero_floats(to + i * room + positions(), room - positions());
    }

    // The softmax of the vector of columns from query i on; where no key counts, 0.
    void soften(int64_t i, float* scores, float* shares) const {
        const int64_t count = keys(i);
        if (shape.causal)
            for (int64_t j = i + 1; j < count; ++j)
                for (int64_t k = i; k < j; ++k) scores[j * room + k] = -INFINITY;
        vf top = load(scores + i), total = zero();
        for (int64_t j = 1; j < count; ++j) top = max(top, load(scores + j * room + i));
        for (int64_t j = 0; j < count; ++j) {
            const vf e = exp_nonpositive(sub(load(scores + j * room + i), top));
            store(scores + j * room + i, e);
            total = add(total, e);
        }
        const vf share = div(set1(1.0f), total);
        const int n = int(least(W, positions() - i));
        for (int64_t j = 0; j < count; ++j) {
            const vf found = mul(load(scores + j * room + i), share);
            store(scores + j * room + i, found);
            if (shares) put(shares + j * positions() + i, found, n);
        }
        for (int64_t j = count; shares && j < positions(); ++j) put(shares + j * positions() + i, zero(), n);
    }

    // slopes of the shares become those of the scores, scaled, in the vector of columns from query i on.
    void harden(int64_t i, const float* shares, float* slopes) const {
        const int64_t count = keys(i);
        const int n = int(least(W, positions() - i));
        vf total = zero();
        for (int64_t j = 0; j < count; ++j)
            total = fma(part(shares + j * positions() + i, n), load(slopes + j * room + i), total);
        for (int64_t j = 0; j < count; ++j) {
            const vf share = mul(set1(scale), part(shares + j * positions() + i, n));
            store(slopes + j * room + i, mul(share, sub(load(slopes + j * room + i), total)));
        }
    }

    // task(image, head, its scratch) for all images and those heads; false where memory is out.
    template <class Task>
    bool each_head(efl_index heads, int64_t work, int64_t floats, const Task& task) const {
        const int64_t count = count_of(heads, shape.heads), blocks = blocks_of(shape.batch * count, work);
        float* memory;
        if (!place([&](Carve& carve) { memory = carve.take<float>(floats * threads_for(blocks)); })) return false;
        const Parts parts = Parts::into(shape.batch * count, blocks);
        parallel(parts.count, parts.count, [&](int64_t block, int64_t thread) {
            for (int64_t i = parts.first(block); i < parts.first(block) + parts.size(block); ++i)
                task(i / count, id_of(heads, i % count), memory + thread * floats);
        });
        return true;
    }
};

static efl_status attention_forward_f32(const efl_attention* shape, const float* qkv, float* y, float* shares) {
    const Attention a(*shape);
    const int64_t work = shape->batch * shape->heads * a.macs(2);
    const bool placed = a.each_head(everything, work, (a.size + a.positions()) * a.room,
                                    [&](int64_t image, int64_t head, float* memory) {
                                        float *const query = memory, *const scores = query + a.size * a.room;
                                        float* const kept = shares ? shares + a.shares_at(image, head) : nullptr;
                                        a.widen(qkv + a.at(image, 0, head), a.size, a.scale, query);
                                        a.pairs(qkv + a.at(image, 1, head), query, scores);
                                        for (int64_t i = 0; i < a.positions(); i += W) a.soften(i, scores, kept);
                                        a.over_keys(qkv + a.at(image, 2, head), scores, y + a.result_at(image, head));
                                    });
    return placed ? EFL_OK : EFL_NO_MEMORY;
}

static efl_status attention_backward_f32(const efl_attention* shape, const float* dy, const float* qkv,
                                         const float* shares, efl_index heads_needed, float* dqkv) {
    const Attention a(*shape);
    const int64_t work = shape->batch * count_of(heads_needed, shape->heads) * a.macs(4);
    const bool placed = a.each_head(
        heads_needed, work, (a.size + 2 * a.positions()) * a.room, [&](int64_t image, int64_t head, float* memory) {
            float *const sent = memory, *const slopes = sent + a.size * a.room,
                         *const turned = slopes + a.positions() * a.room;
            const float *const grad = dy + a.result_at(image, head), *const share = shares + a.shares_at(image, head);
            a.widen(grad, a.size, 1.0f, sent);
            a.pairs(qkv + a.at(image, 2, head), sent, slopes);
            a.turned(share, a.positions(), turned);
            a.over_queries(grad, turned, dqkv + a.at(image, 2, head));
            for (int64_t i = 0; i < a.positions(); i += W) a.harden(i, share, slopes);
            a.over_keys(qkv + a.at(image, 1, head), slopes, dqkv + a.at(image, 0, head));
            a.turned(slopes, a.room, turned);
            a.over_queries(qkv + a.at(image, 0, head), turned, dqkv + a.at(image, 1, head));
        });
    return placed ? EFL_OK : EFL_NO_MEMORY;
}
