// Linear layers. Forward on a small batch is a table of inner products: both operands are contiguous along the sum and
// nothing is packed. Forward on a larger one, and the gradients, are outer products: one operand is packed in panels,
// the other is read a few columns at a time.

constexpr int64_t FORWARD_CHUNK = 24576;  // floats of x kept in L2 while the weights pass by

// y for the outputs [first, last), a chunk of examples at a time.
static void linear_outputs(const float* x, const float* weight, const float* bias, int64_t batch, int64_t in,
                           int64_t out, int64_t first, int64_t last, const int64_t* off, float* y) {
    const int64_t words = in / W, tail = in % W, fit = FORWARD_CHUNK / (in > 0 ? in : 1);
    const Parts lefts(last - first, MAX_LEFT), chunks(batch, fit < 12 ? 12 : fit);
    vf lanes[MAX_LEFT * MAX_RIGHT];
    float totals[MAX_LEFT * MAX_RIGHT];
    for (int64_t c = 0; c < chunks.count; ++c)
        for (int64_t l = 0; l < lefts.count; ++l) {
            const int64_t o = first + lefts.first(l), left = lefts.size(l);
            const Parts rights(chunks.size(c), rights_of(int(left)));
            for (int64_t r = 0; r < rights.count; ++r) {
                const int64_t b = chunks.first(c) + rights.first(r), right = rights.size(r);
                Dots d{
                    .left = {},
                    .right = {},
                    .off = off,
                    .words = words,
                    .tail = tail,
                    .sums = lanes,
                    .add = false,
                };
                for (int64_t m = 0; m < left; ++m) d.left[m] = weight + (o + m) * in;
                for (int64_t k = 0; k < right; ++k) d.right[k] = x + (b + k) * in;
                dot_products(d, left, right);
                sum_lanes(lanes, left * right, totals);
                for (int64_t k = 0; k < right; ++k)
                    for (int64_t m = 0; m < left; ++m)
                        y[(b + k) * out + o + m] = totals[m * right + k] + (bias ? bias[o + m] : 0);
            }
        }
}

constexpr int64_t TILE = 4 * W;                             // columns of results kept at a time
constexpr int64_t PACKED_COLUMNS = W < 16 ? 4 * W : 2 * W;  // columns packed at a time
constexpr int64_t PACKED_TERMS = 192;                       // rows of them: both stay in a first cache of 32 kB
constexpr int64_t KEPT_ROWS = 1 << 17;                      // floats of packed rows: fewer stay in L2
constexpr int64_t FEW_PANELS = 2;  // of rows of the result, for which packing what they multiply does not pay

// Where the update of a weight matrix goes: w[rows[m], cols[n]] for the result's row m and column n.
struct Step {
    SgdStep sgd;
    int64_t w_pitch;
    efl_index rows, cols;

    // `grads` is [count][TILE]: columns [first, first + width) of every row. Neighbours in w move together.
    void apply(int64_t count, int64_t first, int64_t width, const float* grads) const {
        const int64_t span = id_of(cols, first + width - 1) + 1 - id_of(cols, first);
        if (span > width && span <= 2 * TILE) return apply_spread(count, first, width, span, grads);
        SgdStep tile = sgd;
        tile.grad = grads;
        for (int64_t n = 0, end; n < width; n = end) {
            end = n + 1;
            while (end < width && id_of(cols, first + end) == id_of(cols, first + end - 1) + 1) ++end;
            const int64_t column = id_of(cols, first + n);
            for (int64_t m = 0; m < count; ++m) tile.segment(id_of(rows, m) * w_pitch + column, m * TILE + n, end - n);
        }
    }

    // Columns with few gaps: a row's gradients are spread, and every word of the span moves where `chosen` has a one.
    void apply_spread(int64_t count, int64_t first, int64_t width, int64_t span, const float* grads) const {
        float chosen[2 * TILE + W] = {}, spread[2 * TILE + W] = {};
        const int32_t* ids = cols.ids + first;
        for (int64_t n = 0; n < width; ++n) chosen[ids[n] - ids[0]] = 1;
        SgdStep tile = sgd;
        tile.grad = spread;
        for (int64_t m = 0; m < count; ++m) {
            for (int64_t n = 0; n < width; ++n) spread[ids[n] - ids[0]] = grads[m * TILE + n];
            float* row = sgd.w + id_of(rows, m) * w_pitch + ids[0];
            for (int64_t i = 0; i < span; i += W) {
                const int lanes = int(least(W, span - i));
                const vf p = load_n(row + i, lanes);
                store_n(row + i, if_above(load(chosen + i), zero(), tile.moved(p, i), p), lanes);
            }
        }
    }
};

// c[m, columns] = sum over t of a[m, t] * b[rows[t], columns[n]]: both linear gradients.
struct ColumnProduct {
    const float* a;  // a[m, t] at a[m_step * m + t_step * t] after the two selections
    int64_t m_step, t_step;
    efl_index m_ids, t_ids;
    int64_t count, terms;  // rows of the result; terms of the sum
    const float* b;
    int64_t b_pitch, b_columns;
    bool b_transposed;     // b[t, n] lies at n * b_pitch + t; then nothing of b is selected
    bool b_rows_selected;  // row t of b is t_ids[t]; otherwise row t
    efl_index columns;
    const float* bias;  // added to the columns, or nullptr
    float* c;
    int64_t c_pitch;
    bool compact;                // column n of the result lands at n; otherwise at columns[n]
    const Step* step = nullptr;  // if given, the result is a gradient that a step of SGD takes in place of c

    int64_t b_row(int64_t t) const { return b_rows_selected ? id_of(t_ids, t) : t; }
};

static void pack_rows(const ColumnProduct& p, float* packed) {
    const Parts panels(p.count, MAX_ROWS);
    for (int64_t i = 0; i < panels.count; packed += p.terms * panels.size(i), ++i) {
        const int64_t size = panels.size(i);
        if (p.m_step == 1 && !p.m_ids.ids) {  // a word's spare lanes are overwritten by the next term
            for (int64_t t = 0; t < p.terms; ++t)
                for (int64_t m = 0; m < size; m += W) {
                    const float* from = p.a + p.t_step * id_of(p.t_ids, t) + panels.first(i) + m;
                    store(packed + t * size + m, load_n(from, int(least(W, size - m))));
                }
            continue;
        }
        const float* from[MAX_ROWS];
        for (int64_t m = 0; m < size; ++m) from[m] = p.a + p.m_step * id_of(p.m_ids, panels.first(i) + m);
        if (p.t_step == 1 && !p.t_ids.ids) {
            interleave(from, size, p.terms, packed, size);
            continue;
        }
        for (int64_t t = 0; t < p.terms; ++t)
            for (int64_t m = 0; m < size; ++m) packed[t * size + m] = from[m][p.t_step * id_of(p.t_ids, t)];
    }
}

static void pack_transposed(const ColumnProduct& p, int64_t first, int64_t width, int64_t t0, int64_t terms,
                            float* tile) {
    for (int64_t n = 0; n < width; n += W) {
        const float* from[W];
        for (int64_t l = 0; l < least(W, width - n); ++l) from[l] = p.b + (first + n + l) * p.b_pitch + t0;
        interleave(from, least(W, width - n), terms, tile + n, PACKED_COLUMNS);
    }
}

static void pack_columns(const ColumnProduct& p, int64_t first, int64_t width, int64_t t0, int64_t terms, float* tile) {
    if (p.b_transposed) return pack_transposed(p, first, width, t0, terms, tile);
    for (int64_t t = 0; t < terms; ++t, tile += PACKED_COLUMNS) {
        const float* row = p.b + p.b_row(t0 + t) * p.b_pitch;
        if (p.columns.ids)
            for (int64_t n = 0; n < width; ++n) tile[n] = row[p.columns.ids[first + n]];
        else copy_floats(tile, row + first, width);
    }
}

// What the tiles of columns share: where the rows of b lie, packed or in place, and the rest.
struct Columns {
    bool apart;  // from their places in c: they go through a tile of results
    Parts panels, passes;
    const float *packed, *start;
    const int64_t *row, *off, *in_place;  // in_place: nullptr where b is packed

    explicit Columns(const ColumnProduct& p)
        : apart(p.step || (p.columns.ids && !p.compact)), panels(p.count, MAX_ROWS),
          passes(p.terms > 0 ? p.terms : 1, PACKED_TERMS) {}
};

// Adds pass k to columns [first, first + width) of the result.
static void add_pass(const ColumnProduct& p, const Columns& all, int64_t k, int64_t first, int64_t width, float* tile,
                     float* results) {
    const int64_t t0 = all.passes.first(k), terms = p.terms > 0 ? all.passes.size(k) : 0;
    for (int64_t n = 0; n < width; n += PACKED_COLUMNS) {
        const int64_t columns = least(PACKED_COLUMNS, width - n);
        const bool in_place = all.in_place && columns == PACKED_COLUMNS;
        Word words[PACKED_COLUMNS / W];
        for (int64_t v = 0; v * W < columns; ++v) words[v] = Word{v * W, n + v * W, least(W, columns - v * W)};
        if (!in_place) pack_columns(p, first + n, columns, t0, terms, tile);
        for (int64_t i = 0; i < all.panels.count; ++i) {
            const Product product{
                .a = all.packed + all.panels.first(i) * p.terms + t0 * all.panels.size(i),
                .b = in_place ? p.b + first + n : tile,
                .off = in_place ? all.in_place + t0 : all.off,
                .terms = terms,
                .start = k ? nullptr : all.start,
                .c = all.apart ? results : p.c + first,
                .row = all.row + all.panels.first(i),
                .words = words,
            };
            outer_product(product, all.panels.size(i), (columns + W - 1) / W);
        }
    }
}

// What is left to do with columns [first, first + width) after the last pass.
static void finish_columns(const ColumnProduct& p, const Columns& all, int64_t first, int64_t width,
                           const float* results) {
    if (p.bias)
        for (int64_t m = 0; m < p.count; ++m)
            for (int64_t n = 0; n < width; ++n) p.c[m * p.c_pitch + first + n] += p.bias[first + n];
    if (p.step) return p.step->apply(p.count, first, width, results);
    if (!all.apart) return;
    for (int64_t m = 0; m < p.count; ++m)
        for (int64_t n = 0; n < width; ++n) p.c[m * p.c_pitch + p.columns.ids[first + n]] = results[m * TILE + n];
}

// `count` tiles of columns, one after another; or, where the rows of a are too many to stay in L2 from tile to tile,
// all tiles a pass before the next one.
static void add_columns(const ColumnProduct& p, const Columns& all, int64_t first, int64_t count, float* tile,
                        float* results) {
    const int64_t columns = count_of(p.columns, p.b_columns);
    const auto width = [columns](int64_t i) { return least(TILE, columns - i * TILE); };
    const Parts turns(count, !all.apart && p.count * p.terms >= KEPT_ROWS ? count : 1);
    for (int64_t j = 0; j < turns.count; ++j) {
        const int64_t begin = first + turns.first(j), end = begin + turns.size(j);
        for (int64_t k = 0; k < all.passes.count; ++k)
            for (int64_t i = begin; i < end; ++i) add_pass(p, all, k, i * TILE, width(i), tile, results);
        for (int64_t i = begin; i < end; ++i) finish_columns(p, all, i * TILE, width(i), results);
    }
}

static efl_status column_product(const ColumnProduct& p) {
    const int64_t columns = count_of(p.columns, p.b_columns);
    if (p.count == 0 || columns == 0) return EFL_OK;
    Columns all(p);
    const Parts tiles(columns, TILE);
    const int64_t wanted = blocks_of(tiles.count, p.count * p.terms * columns);
    const Parts blocks = Parts::into(tiles.count, wanted);
    const bool in_place = !p.b_transposed && !p.columns.ids && p.count <= FEW_PANELS * MAX_ROWS;
    const int64_t tile_size = PACKED_TERMS * PACKED_COLUMNS, results_size = all.apart ? p.count * TILE : 0;
    float *packed, *start, *tile, *results;
    int64_t *row, *off, *at;
    if (!place([&](Carve& carve) {
            packed = carve.take<float>(p.count * p.terms);
            start = carve.take<float>(MAX_ROWS);
            row = carve.take<int64_t>(p.count);
            off = carve.take<int64_t>(PACKED_TERMS);
            at = carve.take<int64_t>(in_place ? p.terms : 0);
            tile = carve.take<float>(blocks.count * tile_size);
            results = carve.take<float>(blocks.count * results_size);
        }))
        return EFL_NO_MEMORY;
    zero_floats(start, MAX_ROWS);
    for (int64_t m = 0; m < p.count; ++m) row[m] = m * (all.apart ? TILE : p.c_pitch);
    for (int64_t t = 0; t < PACKED_TERMS; ++t) off[t] = t * PACKED_COLUMNS;
    for (int64_t t = 0; in_place && t < p.terms; ++t) at[t] = p.b_row(t) * p.b_pitch;
    pack_rows(p, packed);
    all.packed = packed, all.start = start, all.row = row, all.off = off, all.in_place = in_place ? at : nullptr;
    parallel(blocks.count, [&](int64_t block) {
        add_columns(p, all, blocks.first(block), blocks.size(block), tile + block * tile_size,
                    results + block * results_size);
    });
    return EFL_OK;
}

constexpr int64_t MIN_PACKED = 64;  // examples, from which packing x and the weights pays

static efl_status linear_forward_f32(const float* x, const float* weight, const float* bias, efl_int64 batch,
                                     efl_int64 in_features, efl_int64 out_features, float* y) {
    if (batch == 0 || out_features == 0) return EFL_OK;
    if (batch >= MIN_PACKED && out_features >= TILE)
        return column_product(ColumnProduct{
            .a = x,
            .m_step = in_features,
            .t_step = 1,
            .m_ids = everything,
            .t_ids = everything,
            .count = batch,
            .terms = in_features,
            .b = weight,
            .b_pitch = in_features,
            .b_columns = out_features,
            .b_transposed = true,
            .b_rows_selected = false,
            .columns = everything,
            .bias = bias,
            .c = y,
            .c_pitch = out_features,
            .compact = true,
        });
    int64_t* off;
    if (!place([&](Carve& carve) { off = carve.take<int64_t>(in_features / W); })) return EFL_NO_MEMORY;
    for (int64_t i = 0; i < in_features / W; ++i) off[i] = i * W;
    const Parts quads(out_features, MAX_LEFT);
    const int64_t wanted = blocks_of(quads.count, batch * in_features * out_features);
    const Parts blocks = Parts::into(quads.count, wanted);
    parallel(blocks.count, [&](int64_t i) {
        const int64_t first = quads.first(blocks.first(i)), end = blocks.first(i) + blocks.size(i);
        linear_outputs(x, weight, bias, batch, in_features, out_features, first,
                       end < quads.count ? quads.first(end) : out_features, off, y);
    });
    return EFL_OK;
}

static efl_status linear_grad_input_f32(const float* dy, const float* weight, efl_int64 batch, efl_int64 in_features,
                                        efl_int64 out_features, efl_index outs, efl_index ins, float* dx) {
    return column_product(ColumnProduct{
        .a = dy,
        .m_step = out_features,
        .t_step = 1,
        .m_ids = everything,
        .t_ids = outs,
        .count = batch,
        .terms = count_of(outs, out_features),
        .b = weight,
        .b_pitch = in_features,
        .b_columns = in_features,
        .b_transposed = false,
        .b_rows_selected = true,
        .columns = ins,
        .bias = nullptr,
        .c = dx,
        .c_pitch = in_features,
        .compact = false,
    });
}

// dy^T x, which a step of SGD takes in place of dw where one is given.
static efl_status weight_product(const float* x, const float* dy, int64_t batch, int64_t x_features,
                                 int64_t out_features, efl_index outs, efl_index ins, float* dw, const Step* step) {
    return column_product(ColumnProduct{
        .a = dy,
        .m_step = 1,
        .t_step = out_features,
        .m_ids = outs,
        .t_ids = everything,
        .count = count_of(outs, out_features),
        .terms = batch,
        .b = x,
        .b_pitch = x_features,
        .b_columns = x_features,
        .b_transposed = false,
        .b_rows_selected = false,
        .columns = ins,
        .bias = nullptr,
        .c = dw,
        .c_pitch = count_of(ins, x_features),
        .compact = true,
        .step = step,
    });
}

static efl_status linear_grad_weight_f32(const float* x, const float* dy, efl_int64 batch, efl_int64 x_features,
                                         efl_int64 out_features, efl_index outs, efl_index ins, float* dw) {
    return weight_product(x, dy, batch, x_features, out_features, outs, ins, dw, nullptr);
}

static efl_status linear_update_f32(const float* x, const float* dy, efl_int64 batch, efl_int64 x_features,
                                    efl_int64 in_features, efl_int64 out_features, efl_index outs, efl_index ins,
                                    efl_index cols, const efl_sgd* sgd, float* w) {
    const SgdStep plain{
        .lr = sgd->lr,
        .momentum = 0,
        .decay = sgd->weight_decay,
        .pull = 0,
        .scale = 1.0f,
        .w = w,
        .velocity = nullptr,
        .grad = nullptr,
        .centre = nullptr,
        .linear = nullptr,
    };
    const Step step{.sgd = plain, .w_pitch = in_features, .rows = outs, .cols = cols};
    return weight_product(x, dy, batch, x_features, out_features, outs, ins, nullptr, &step);
}

// Bias gradients of a linear layer: sixteen columns at a time, rows in order.
static void column_sums(const float* dy, int64_t batch, int64_t channels, efl_index outs, int64_t first, int64_t last,
                        float* db) {
    constexpr int64_t block = 16;
    for (int64_t j = first; j < last; j += block) {
        const int64_t n = least(block, last - j);
        double total[block] = {0};
        for (int64_t b = 0; b < batch; ++b) {
            const float* row = dy + b * channels;
            if (outs.ids)
                for (int64_t k = 0; k < n; ++k) total[k] += row[outs.ids[j + k]];
            else
                for (int64_t k = 0; k < n; ++k) total[k] += row[j + k];
        }
        for (int64_t k = 0; k < n; ++k) db[j + k] = float(total[k]);
    }
}

static efl_status channel_sum_f32(const float* dy, efl_int64 batch, efl_int64 channels, efl_int64 inner, efl_index outs,
                                  float* db) {
    split(count_of(outs, channels), batch * inner, [&](int64_t first, int64_t last) {
        if (inner == 1) return column_sums(dy, batch, channels, outs, first, last, db);
        for (int64_t j = first; j < last; ++j) {
            double total = 0;
            for (int64_t b = 0; b < batch; ++b) total += plane_sum(dy + (b * channels + id_of(outs, j)) * inner, inner);
            db[j] = float(total);
        }
    });
    return EFL_OK;
}
