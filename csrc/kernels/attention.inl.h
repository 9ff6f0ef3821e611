// Attention by heads. Scores lie with the places that ask side by side, [keys][queries]: then every product is one of
// tile.inl.h, and a softmax goes down the columns without a sum across a word. Of causal attention a word of queries
// meets the keys up to its last one only.

struct Attention {
    efl_attention shape;
    int64_t size, room, step;  // of a head; places in whole words; columns to which the same keys count
    float scale;

    explicit Attention(const efl_attention& s)
        : shape(s), size(s.channels / s.heads), room(whole_words(s.places)), step(s.causal ? W : room),
          scale(1.0f / std::sqrt(float(size > 0 ? size : 1))) {}

    int64_t places() const { return shape.places; }
    int64_t macs(int64_t products) const { return products * size * places() * places(); }
    int64_t keys(int64_t query) const { return shape.causal ? least(places(), query + step) : places(); }
    int64_t columns(int64_t first) const { return least(step, places() - first); }

    // Channel c of a head's queries (part 0), keys (1) or values (2) in qkv.
    int64_t at(int64_t image, int64_t part, int64_t head) const {
        return ((image * 3 + part) * shape.channels + head * size) * places();
    }
    int64_t result_at(int64_t image, int64_t head) const { return (image * shape.channels + head * size) * places(); }
    int64_t shares_at(int64_t image, int64_t head) const { return (image * shape.heads + head) * places() * places(); }

    Tiles tiles(const float* a, bool by_rows, const float* b, int64_t terms, float* c, int64_t c_pitch) const {
        return Tiles{
            .a = a,
            .a_pitch = places(),
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

    // c[j][i] = sum over the channels of a[:, j] b[:, i], c with rows of whole words.
    void pairs(const float* a, const float* b, float* c) const {
        for (int64_t j = 0; j < places(); j += step)
            small_product(tiles(a + j, false, b + j, size, c + j * room + j, room), columns(j), places() - j);
    }

    // c[:, i] = sum over the keys j of a[:, j] b[j][i].
    void over_keys(const float* a, const float* b, float* c) const {
        for (int64_t i = 0; i < places(); i += step)
            small_product(tiles(a, true, b + i, keys(i), c + i, places()), size, columns(i));
    }

    // c[:, j] = sum over the queries i of a[:, i] b[i][j].
    void over_queries(const float* a, const float* b, float* c) const {
        for (int64_t j = 0; j < places(); j += step) {
            const int64_t first = shape.causal ? j : 0;
            small_product(tiles(a + first, true, b + first * room + j, places() - first, c + j, places()), size,
                          columns(j));
        }
    }

    // to [rows][room] = factor times from [rows][places], and zeros up to whole words.
    void widen(const float* from, int64_t rows, float factor, float* to) const {
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t i = 0; i < places(); i += W)
                store(to + r * room + i, mul(set1(factor), part(from + r * places() + i, int(least(W, places() - i)))));
    }

    // to [places][room], turned.
    void turned(const float* from, int64_t pitch, float* to) const {
        transpose(from, pitch, places(), places(), to, room);
        for (int64_t i = 0; i < places(); ++i) zero_floats(to + i * room + places(), room - places());
    }

    // The softmax of the word of columns from query i on; where no key counts, 0.
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
        const int n = int(least(W, places() - i));
        for (int64_t j = 0; j < count; ++j) {
            const vf found = mul(load(scores + j * room + i), share);
            store(scores + j * room + i, found);
            if (shares) put(shares + j * places() + i, found, n);
        }
        for (int64_t j = count; shares && j < places(); ++j) put(shares + j * places() + i, zero(), n);
    }

    // slopes of the shares become those of the scores, scaled, in the word of columns from query i on.
    void harden(int64_t i, const float* shares, float* slopes) const {
        const int64_t count = keys(i);
        const int n = int(least(W, places() - i));
        vf total = zero();
        for (int64_t j = 0; j < count; ++j)
            total = fma(part(shares + j * places() + i, n), load(slopes + j * room + i), total);
        for (int64_t j = 0; j < count; ++j) {
            const vf share = mul(set1(scale), part(shares + j * places() + i, n));
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
    const bool placed =
        a.each_head(everything, work, (a.size + a.places()) * a.room, [&](int64_t image, int64_t head, float* memory) {
            float *const query = memory, *const scores = query + a.size * a.room;
            float* const kept = shares ? shares + a.shares_at(image, head) : nullptr;
            a.widen(qkv + a.at(image, 0, head), a.size, a.scale, query);
            a.pairs(qkv + a.at(image, 1, head), query, scores);
            for (int64_t i = 0; i < a.places(); i += W) a.soften(i, scores, kept);
            a.over_keys(qkv + a.at(image, 2, head), scores, y + a.result_at(image, head));
        });
    return placed ? EFL_OK : EFL_NO_MEMORY;
}

static efl_status attention_backward_f32(const efl_attention* shape, const float* dy, const float* qkv,
                                         const float* shares, efl_index heads_needed, float* dqkv) {
    const Attention a(*shape);
    const int64_t work = shape->batch * count_of(heads_needed, shape->heads) * a.macs(4);
    const bool placed = a.each_head(
        heads_needed, work, (a.size + 2 * a.places()) * a.room, [&](int64_t image, int64_t head, float* memory) {
            float *const sent = memory, *const slopes = sent + a.size * a.room,
                         *const turned = slopes + a.places() * a.room;
            const float *const signal = dy + a.result_at(image, head), *const share = shares + a.shares_at(image, head);
            a.widen(signal, a.size, 1.0f, sent);
            a.pairs(qkv + a.at(image, 2, head), sent, slopes);
            a.turned(share, a.places(), turned);
            a.over_queries(signal, turned, dqkv + a.at(image, 2, head));
            for (int64_t i = 0; i < a.places(); i += W) a.harden(i, share, slopes);
            a.over_keys(qkv + a.at(image, 1, head), slopes, dqkv + a.at(image, 0, head));
            a.turned(slopes, a.room, turned);
            a.over_queries(qkv + a.at(image, 0, head), turned, dqkv + a.at(image, 1, head));
        });
    return placed ? EFL_OK : EFL_NO_MEMORY;
}
