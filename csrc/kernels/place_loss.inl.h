// Softmax cross-entropy of every place of outputs [B, K, P], with its gradient: a token of a sequence or a pixel of an
// image. A tile is up to TILE neighbouring places of one example, whose classes are read one after another. Losses of
// one label for a row are in loss.inl.h.

constexpr int64_t TILE = 64;         // places that are read side by side, whose sums stay in the first cache
constexpr int64_t CLASS_BLOCK = 64;  // classes whose terms are summed before the sum joins the total

// A tile: its logits at `x`, the next class `stride` floats further, and what its places have found so far.
struct PlaceTile {
    const float* x;
    float* gradient;  // NULL: not asked for
    const efl_int32* labels;
    int64_t stride, places;
    float top[TILE], first[TILE], strange[TILE], total[TILE], margin[TILE], own[TILE];
};

static inline vf some(const float* p, int lanes) { return lanes == W ? load(p) : load_n(p, lanes); }

template <class Body>
static inline void each_vector(int64_t places, const Body& body) {
    for (int64_t v = 0; v < places; v += W) body(v, int(least(W, places - v)));
}

// The first largest logit of each place. `strange` is 0 unless a logit is not finite.
static inline void find_tops(PlaceTile& tile, int64_t classes) {
    each_vector(TILE, [&](int64_t v, int) {
        store(tile.top + v, set1(-INFINITY));
        store(tile.first + v, zero());
        store(tile.strange + v, zero());
    });
    for (int64_t c = 0; c < classes; ++c) {
        const float* const row = tile.x + c * tile.stride;
        const vf at = set1(float(c));
        each_vector(tile.places, [&](int64_t v, int lanes) {
            const vf now = some(row + v, lanes), top = load(tile.top + v);
            store(tile.first + v, if_above(now, top, at, load(tile.first + v)));
            store(tile.top + v, if_above(now, top, now, top));
            store(tile.strange + v, add(load(tile.strange + v), sub(now, now)));
        });
    }
}

// The first largest logit of a place with logits that are not finite; among NaNs, the first NaN.
static inline int64_t first_strange(const PlaceTile& tile, int64_t place, int64_t classes) {
    int64_t first = 0;
    for (int64_t c = 0; c < classes; ++c) {
        const float now = tile.x[c * tile.stride + place];
        if (now != now) return c;
        if (now > tile.x[first * tile.stride + place]) first = c;
    }
    return first;
}

// Sums over the classes of e^(logit - top), and of what all classes share of the loss. The terms go to the gradient.
static inline void sum_terms(PlaceTile& tile, const Asked& asked) {
    float term[TILE], shared[TILE];
    each_vector(TILE, [&](int64_t v, int) {
        store(tile.total + v, zero());
        store(tile.margin + v, zero());
    });
    for (int64_t from = 0; from < asked.classes; from += CLASS_BLOCK) {
        each_vector(TILE, [&](int64_t v, int) {
            store(term + v, zero());
            store(shared + v, zero());
        });
        for (int64_t c = from; c < least(from + CLASS_BLOCK, asked.classes); ++c) {
            const float* const row = tile.x + c * tile.stride;
            float* const to = tile.gradient ? tile.gradient + c * tile.stride : nullptr;
            const vf share = set1(float(asked.share(c)));
            each_vector(tile.places, [&](int64_t v, int lanes) {
                const vf below = sub(some(row + v, lanes), load(tile.top + v)), e = exp_nonpositive(below);
                store(term + v, add(load(term + v), e));
                if (asked.smoothing > 0) store(shared + v, sub(load(shared + v), mul(share, below)));
                if (to) put(to + v, e, lanes);
            });
        }
        each_vector(TILE, [&](int64_t v, int) {
            store(tile.total + v, add(load(tile.total + v), load(term + v)));
            store(tile.margin + v, add(load(tile.margin + v), load(shared + v)));
        });
    }
}

// What is asked for of a batch: the label that is not counted, and 1 over the weights of the counted labels.
struct Counted {
    Asked asked;
    int64_t ignored;
    double scale, shared;

    inline bool counts(int64_t label) const { return label != ignored && label >= 0 && label < asked.classes; }
};

// The terms of the tile become the gradient; that of places that are not counted is 0.
static inline void write_slopes(PlaceTile& tile, const Counted& of) {
    float factor[TILE] = {}, own[TILE];
    for (int64_t i = 0; i < tile.places; ++i) {
        if (!of.counts(tile.labels[i])) continue;
        const int64_t label = tile.labels[i];
        const double asked = of.asked.label(label), part = (asked + of.shared) / double(tile.total[i]);
        const double term = double(tile.gradient[label * tile.stride + i]);
        factor[i] = float(part * of.scale);
        own[i] = float(of.scale * (part * term - asked - of.asked.share(label)));
    }
    for (int64_t c = 0; c < of.asked.classes; ++c) {
        float* const row = tile.gradient + c * tile.stride;
        const vf share = set1(float(of.asked.share(c) * of.scale));
        each_vector(tile.places, [&](int64_t v, int lanes) {
            put(row + v, sub(mul(some(row + v, lanes), load(factor + v)), share), lanes);
        });
    }
    for (int64_t i = 0; i < tile.places; ++i)
        if (of.counts(tile.labels[i])) {
            tile.gradient[tile.labels[i] * tile.stride + i] = own[i];
        } else {
            for (int64_t c = 0; c < of.asked.classes; ++c) tile.gradient[c * tile.stride + i] = 0;
        }
}

static inline RowLoss place_tile(PlaceTile& tile, const Counted& of) {
    RowLoss found = {0, 0};
    find_tops(tile, of.asked.classes);
    for (int64_t i = 0; i < tile.places; ++i) {
        const int64_t label = tile.labels[i];
        if (!of.counts(label)) continue;
        const bool is_finite = tile.strange[i] == 0;
        const int64_t first = is_finite ? int64_t(tile.first[i]) : first_strange(tile, i, of.asked.classes);
        found.correct += first == label;
        tile.own[i] = tile.x[label * tile.stride + i];  // the gradient may overwrite it
    }
    sum_terms(tile, of.asked);
    for (int64_t i = 0; i < tile.places; ++i) {
        const int64_t label = tile.labels[i];
        if (!of.counts(label)) continue;
        const double own = of.asked.label(label), below = double(tile.top[i]) - double(tile.own[i]);
        found.loss += (own + of.shared) * std::log(double(tile.total[i])) + own * below + double(tile.margin[i]);
    }
    if (tile.gradient) write_slopes(tile, of);
    return found;
}

static efl_status place_cross_entropy_f32(const float* logits, const efl_int32* labels, efl_int64 rows,
                                          efl_int64 length, const efl_int32* ids, efl_int64 indices, efl_int64 first,
                                          efl_int64 from, const float* weight, efl_int64 batch, efl_int64 classes,
                                          efl_int64 places, float smoothing, efl_int64 ignored, float* dlogits,
                                          double* loss, efl_int64* correct) {
    (void)rows;
    Counted of = {{weight, double(smoothing), classes}, ignored, 0, 0};
    double weights = 0;
    for (int64_t i = 0; i < indices; ++i) {
        const efl_int32* const row = labels + int64_t(ids[i]) * length;
        for (int64_t p = 0; p < length; ++p)
            if (of.counts(row[p])) weights += of.asked.of(row[p]);
    }
    for (int64_t c = 0; c < classes; ++c) of.shared += of.asked.share(c);
    of.scale = weights > 0 ? 1.0 / weights : 0.0;
    const int64_t tiles = (places + TILE - 1) / TILE;
    sum_rows(batch * tiles, classes * least(TILE, places), loss, correct, [=](int64_t unit) {
        const int64_t example = unit / tiles, place = unit % tiles * TILE, at = example * classes * places + place;
        PlaceTile tile;
        tile.x = logits + at;
        tile.gradient = dlogits ? dlogits + at : nullptr;
        tile.labels = labels + int64_t(ids[first + example]) * length + from + place;
        tile.stride = places;
        tile.places = least(TILE, places - place);
        return place_tile(tile, of);
    });
    return EFL_OK;
}
