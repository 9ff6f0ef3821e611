// Attention whose heads may share keys and values, with a bias, a window, and dropout of the shares. Contracts:
// edgefl/kernels/table.py.
//
// A block of queries is taken at a time, with all the keys that it meets: scores lie as [keys][queries of the block],
// as in attention.inl.h. Nothing of them is kept for the backward pass but the logarithm of each query's sum, from
// which the shares come again. Its gradients of keys and values are summed block after block, as [keys][channels].

constexpr int64_t QUERIES = 64;  // of a block

struct Sdpa {
    efl_sdpa shape;
    int64_t size, group, room, wide;  // channels of a head; heads that share keys; columns of a block; size in vectors

    explicit Sdpa(const efl_sdpa& s)
        : shape(s), size(s.channels / s.heads), group(s.heads / s.kv_heads),
          room(least(QUERIES, whole_vectors(s.places))), wide(whole_vectors(size)) {}

    int64_t places() const { return shape.places; }
    int64_t macs(int64_t products) const { return products * shape.channels * places() * places(); }
    int64_t rows() const { return shape.channels + 2 * shape.kv_heads * size; }  // of qkv

    int64_t query_at(int64_t image, int64_t head) const { return (image * rows() + head * size) * places(); }
    // Part 1 has the keys, part 2 the values.
    int64_t shared_at(int64_t image, int64_t part, int64_t kv_head) const {
        return (image * rows() + shape.channels + ((part - 1) * shape.kv_heads + kv_head) * size) * places();
    }
    int64_t result_at(int64_t image, int64_t head) const { return (image * shape.heads + head) * size * places(); }
    int64_t lse_at(int64_t image, int64_t head) const { return (image * shape.heads + head) * places(); }
    int64_t bias_at(int64_t head) const { return head / (shape.heads / shape.masks) * places() * places(); }

    // The keys that count for some of the queries [first, first + count).
    int64_t from(int64_t first) const {
        return shape.window ? least(places(), first - least(first, shape.window - 1)) : 0;
    }
    int64_t to(int64_t first, int64_t count) const { return shape.causal ? first + count : places(); }

    bool counts(int64_t key, int64_t query) const {
        return !(shape.causal && key > query) && !(shape.window && query - key >= shape.window);
    }

    static Tiles tiles(const float* a, int64_t a_pitch, bool by_rows, const float* b, int64_t b_pitch, int64_t terms,
                       float* c, int64_t c_pitch, bool adds) {
        return Tiles{
            .a = a,
            .a_pitch = a_pitch,
            .by_rows = by_rows,
            .b = b,
            .b_pitch = b_pitch,
            .b_step = 0,
            .b_far = false,
            .keep = nullptr,
            .keep_step = 0,
            .terms = terms,
            .start = nullptr,
            .c = c,
            .c_pitch = c_pitch,
            .add = adds,
            .chosen = nullptr,
        };
    }

    efl_dropout dropout() const {
        return efl_dropout{
            .batch = 1,
            .channels = 1,
            .inner = 1,
            .node = shape.node,
            .threshold = shape.threshold,
            .scale = shape.keep_scale,
            .whole = 0,
        };
    }
};

// Some queries of a head, with the keys [from, to) that they meet.
struct SdpaBlock {
    const Sdpa& a;
    int64_t image, head, first, count, from, to;

    SdpaBlock(const Sdpa& sdpa, int64_t image_, int64_t head_, int64_t first_)
        : a(sdpa), image(image_), head(head_), first(first_), count(least(QUERIES, sdpa.places() - first_)),
          from(sdpa.from(first_)), to(sdpa.to(first_, count)) {}

    // out [channels][room] = factor times the block's columns of x, and zeros up to whole vectors.
    void widen(const float* x, float factor, float* out) const {
        for (int64_t c = 0; c < a.size; ++c)
            for (int64_t i = 0; i < a.room; i += W) {
                const int n = int(least(W, count - least(i, count)));
                const float* const at = x + c * a.places() + first + i;
                store(out + c * a.room + i, n > 0 ? mul(set1(factor), part(at, n)) : zero());
            }
    }

    // out [queries][wide], turned, with zeros up to whole vectors.
    void turned(const float* x, float* out) const {
        transpose(x + first, a.places(), a.size, count, out, a.wide);
        for (int64_t i = 0; i < count; ++i) zero_floats(out + i * a.wide + a.size, a.wide - a.size);
    }

    // out[j][i] = sum over the channels of x[:, j] by[:, i]; out begins with key `from`.
    void pairs(const float* x, const float* by, float* out) const {
        small_product(Sdpa::tiles(x + from, a.places(), false, by, a.room, a.size, out, a.room, false), to - from,
                      count);
    }

    // y[:, i] = sum over the keys of x[:, j] by[j][i].
    void over_keys(const float* x, const float* by, float* y) const {
        small_product(Sdpa::tiles(x + from, a.places(), true, by, a.room, to - from, y + first, a.places(), false),
                      a.size, count);
    }

    // sums[j] += sum over the queries of by[j][i] x[i], with x and sums in rows of `wide` channels.
    void over_queries(const float* by, const float* x, float* sums) const {
        small_product(Sdpa::tiles(by, a.room, true, x, a.wide, count, sums + from * a.wide, a.wide, true), to - from,
                      a.size);
    }

    // Scores of what does not count become -inf, and the bias is added.
    void mask(int64_t i, const float* bias, float* scores) const {
        const int n = int(least(W, count - i));
        for (int64_t j = from; bias && j < to; ++j) {
            float* const at = scores + (j - from) * a.room + i;
            store(at, add(load(at), part(bias + j * a.places() + first + i, n)));
        }
        if (!a.shape.causal && !a.shape.window) return;
        for (int64_t j = from; j < to; ++j) {
            if (a.counts(j, first + i) && a.counts(j, first + i + W - 1)) continue;
            for (int64_t k = 0; k < W; ++k)
                if (!a.counts(j, first + i + k)) scores[(j - from) * a.room + i + k] = -INFINITY;
        }
    }

    // The softmax of W columns, and the logarithms of their sums.
    void soften(int64_t i, float* scores, float* lse) const {
        float* const at = scores + i;
        const int64_t keys = to - from;
        vf top = load(at), total = zero();
        for (int64_t j = 1; j < keys; ++j) top = max(top, load(at + j * a.room));
        for (int64_t j = 0; j < keys; ++j) {
            const vf e = exp_nonpositive(sub(load(at + j * a.room), top));
            store(at + j * a.room, e);
            total = add(total, e);
        }
        const vf share = div(set1(1.0f), total);
        for (int64_t j = 0; j < keys; ++j) store(at + j * a.room, mul(load(at + j * a.room), share));
        if (!lse) return;
        float tops[W], totals[W];
        store(tops, top);
        store(totals, total);
        for (int64_t k = 0; k < least(W, count - i); ++k) lse[first + i + k] = tops[k] + std::log(totals[k]);
    }

    // The shares of W columns again, from the logarithms of their sums.
    void again(int64_t i, const float* lse, float* scores) const {
        const vf by = part(lse + first + i, int(least(W, count - i)));
        for (int64_t j = 0; j < to - from; ++j) {
            float* const at = scores + j * a.room + i;
            store(at, exp_nonpositive(min(sub(load(at), by), zero())));
        }
    }

    // out = what is kept of shares; both may be one.
    void drop(Kept& kept, const float* shares, float* out) const {
        for (int64_t j = from; j < to; ++j) {
            const int64_t word = (head * a.places() + j) * a.places() + first, row = (j - from) * a.room;
            kept.run(shares + row - word, word, word + count, out + row - word);
        }
    }

    // slopes of what is kept of the shares become those of the scores; dbias gets them added.
    void harden(int64_t i, const float* shares, const float* kept, float* slopes, float* dbias) const {
        const int n = int(least(W, count - i));
        const int64_t keys = to - from;
        vf total = zero();
        for (int64_t j = 0; j < keys; ++j)
            total = fma(load(kept + j * a.room + i), load(slopes + j * a.room + i), total);
        const vf scale = set1(a.shape.scale);
        for (int64_t j = 0; j < keys; ++j) {
            const int64_t at = j * a.room + i;
            const vf sent = sub(mul(load(kept + at), load(slopes + at)), mul(load(shares + at), total));
            if (dbias) {
                float* const sums = dbias + (from + j) * a.places() + first + i;
                put(sums, add(part(sums, n), sent), n);
            }
            store(slopes + at, mul(scale, sent));
        }
    }
};

// task(i, its scratch) for i in [0, count), on the threads; false where memory is out.
template <class Task>
static bool with_scratch(int64_t count, int64_t macs, int64_t floats, const Task& task) {
    const int64_t blocks = blocks_of(count, macs);
    float* memory;
    if (!place([&](Carve& carve) { memory = carve.take<float>(floats * threads_for(blocks)); })) return false;
    const Parts parts = Parts::into(count, blocks);
    parallel(parts.count, parts.count, [&](int64_t block, int64_t thread) {
        for (int64_t i = parts.first(block); i < parts.first(block) + parts.size(block); ++i)
            task(i, memory + thread * floats);
    });
    return true;
}

static efl_status sdpa_forward_f32(const efl_sdpa* shape, const float* qkv, const float* bias, const efl_int64* state,
                                   float* y, float* lse) {
    const Sdpa a(*shape);
    const efl_dropout dropout = a.dropout();
    const bool placed = with_scratch(shape->batch * shape->heads, shape->batch * a.macs(2),
                                     (a.size + a.places()) * a.room, [&](int64_t task, float* memory) {
                                         const int64_t image = task / shape->heads, head = task % shape->heads;
                                         float *const query = memory, *const scores = query + a.size * a.room;
                                         const float* const keys = qkv + a.shared_at(image, 1, head / a.group);
                                         const float* const values = qkv + a.shared_at(image, 2, head / a.group);
                                         const efl_int64 no_state[3] = {0, 0, 0};
                                         Kept kept(&dropout, state ? state : no_state, image);
                                         for (int64_t first = 0; first < a.places(); first += QUERIES) {
                                             const SdpaBlock block(a, image, head, first);
                                             block.widen(qkv + a.query_at(image, head), shape->scale, query);
                                             block.pairs(keys, query, scores);
                                             for (int64_t i = 0; i < block.count; i += W) {
                                                 block.mask(i, bias ? bias + a.bias_at(head) : nullptr, scores);
                                                 block.soften(i, scores, lse ? lse + a.lse_at(image, head) : nullptr);
                                             }
                                             if (state) block.drop(kept, scores, scores);
                                             block.over_keys(values, scores, y + a.result_at(image, head));
                                         }
                                     });
    return placed ? EFL_OK : EFL_NO_MEMORY;
}

// The gradients of a head of keys and values of an image, and of the heads of queries that share it.
struct SdpaBackward {
    const Sdpa& a;
    const efl_dropout& dropout;
    const float *dy, *qkv, *bias, *lse;
    const efl_int64* state;
    float *dqkv, *dbias;

    int64_t floats() const {
        return 2 * (a.size + a.wide) * a.room + (state ? 3 : 2) * a.places() * a.room + 2 * a.places() * a.wide;
    }

    void run(int64_t image, int64_t kv_head, float* memory) const {
        float *const key_sums = memory, *const value_sums = key_sums + a.places() * a.wide;
        zero_floats(key_sums, 2 * a.places() * a.wide);
        for (int64_t head = kv_head * a.group; head < (kv_head + 1) * a.group; ++head)
            run_head(image, head, kv_head, key_sums, value_sums, value_sums + a.places() * a.wide);
        transpose(key_sums, a.wide, a.places(), a.size, dqkv + a.shared_at(image, 1, kv_head), a.places());
        transpose(value_sums, a.wide, a.places(), a.size, dqkv + a.shared_at(image, 2, kv_head), a.places());
    }

    void run_head(int64_t image, int64_t head, int64_t kv_head, float* key_sums, float* value_sums,
                  float* memory) const {
        float *const wide = memory, *const turned = wide + 2 * a.size * a.room,
                     *const shares = turned + 2 * a.wide * a.room, *const slopes = shares + a.places() * a.room,
                     *const left = state ? slopes + a.places() * a.room : shares;
        const float *const queries = qkv + a.query_at(image, head), *const sent = dy + a.result_at(image, head);
        const float *const keys = qkv + a.shared_at(image, 1, kv_head), *const values =
                                                                            qkv + a.shared_at(image, 2, kv_head);
        const efl_int64 no_state[3] = {0, 0, 0};
        Kept kept(&dropout, state ? state : no_state, image);
        for (int64_t first = 0; first < a.places(); first += QUERIES) {
            const SdpaBlock block(a, image, head, first);
            block.widen(queries, a.shape.scale, wide);
            block.pairs(keys, wide, shares);
            for (int64_t i = 0; i < block.count; i += W) {
                block.mask(i, bias ? bias + a.bias_at(head) : nullptr, shares);
                block.again(i, lse + a.lse_at(image, head), shares);
            }
            if (state) block.drop(kept, shares, left);
            block.turned(sent, turned);
            block.over_queries(left, turned, value_sums);
            block.widen(sent, 1.0f, wide);
            block.pairs(values, wide, slopes);
            for (int64_t i = 0; i < block.count; i += W)
                block.harden(i, shares, left, slopes, dbias ? dbias + a.bias_at(head) : nullptr);
            block.over_keys(keys, slopes, dqkv + a.query_at(image, head));
            block.turned(queries, turned);
            block.over_queries(slopes, turned, key_sums);
        }
    }
};

static efl_status sdpa_backward_f32(const efl_sdpa* shape, const float* dy, const float* qkv, const float* bias,
                                    const efl_int64* state, const float* lse, efl_index kv_needed, float* dqkv,
                                    float* dbias) {
    const Sdpa a(*shape);
    const efl_dropout dropout = a.dropout();
    const SdpaBackward back{a, dropout, dy, qkv, bias, lse, state, dqkv, dbias};
    const int64_t needed = count_of(kv_needed, shape->kv_heads), images = shape->batch;
    const int64_t macs = images * a.macs(5) * needed / shape->kv_heads;
    if (!dbias) {
        const auto task = [&](int64_t i, float* memory) { back.run(i / needed, id_of(kv_needed, i % needed), memory); };
        return with_scratch(images * needed, macs, back.floats(), task) ? EFL_OK : EFL_NO_MEMORY;
    }
    zero_floats(dbias, shape->masks * a.places() * a.places());
    const bool is_apart = shape->masks % shape->kv_heads == 0;  // no two heads of keys share a bias
    const int64_t count = is_apart ? needed : least(needed, 1), each = is_apart ? 1 : needed;
    const bool placed = with_scratch(count, macs, back.floats(), [&](int64_t i, float* memory) {
        for (int64_t image = 0; image < images; ++image)
            for (int64_t j = i * each; j < (i + 1) * each; ++j) back.run(image, id_of(kv_needed, j), memory);
    });
    return placed ? EFL_OK : EFL_NO_MEMORY;
}
