// Linear layers. Forward on a small batch is a table of inner products: both operands are contiguous along the sum and
// nothing is packed. Forward on a larger one, and the gradients, are products of matrices.

constexpr int64_t FORWARD_CHUNK = 24576;  // floats of x kept in L2 while the weights pass by

// y for the outputs [first, last), a chunk of examples at a time.
static void linear_outputs(const float* x, const float* weight, const float* bias, int64_t batch, int64_t in,
                           int64_t out, int64_t first, int64_t last, const int64_t* off, float* y) {
    const int64_t vectors = in / W, tail = in % W, fit = FORWARD_CHUNK / (in > 0 ? in : 1);
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
                    .vectors = vectors,
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

// The same with lanes over examples: x lies side by side, a block of examples and a range of inputs that stays in L1 at
// a time, and the weights of a few outputs take their turns as lanes.
struct ForwardLanes {
    static constexpr int64_t FLOATS = 6144;  // of x side by side
    Parts vectors;                           // of examples
    int64_t quads;                           // of inputs at a time

    ForwardLanes(int64_t batch, int64_t in)
        : vectors((batch + W - 1) / W, MAX_LANE_VECTORS), quads(least(in / W + 1, FLOATS / (vectors.size(0) * W * W))) {
    }
    int64_t floats() const { return (quads * W + W) * vectors.size(0) * W + W; }
};

// The inputs from `first` on of one block for all outputs, added to sums[output][example].
static void add_inputs(const float* weight, int64_t in, int64_t first, const Parts& rights, LaneDots d) {
    for (int64_t r = 0; r < rights.count; ++r) {
        for (int64_t k = 0; k < rights.size(r); ++k) d.right[k] = weight + (rights.first(r) + k) * in + first;
        lane_products(d, rights.size(r));
        d.sums += rights.size(r) * d.vectors * W;
    }
}

// y for some outputs, whose weights and biases these are.
static void linear_outputs_by_lanes(const float* x, const float* weight, const float* bias, int64_t batch, int64_t in,
                                    int64_t out, int64_t outs, const int64_t* off, float* side, float* sums, float* y) {
    const ForwardLanes lanes(batch, in);
    for (int64_t b = 0; b < lanes.vectors.count; ++b) {
        const int64_t vectors = lanes.vectors.size(b), pitch = vectors * W, example = lanes.vectors.first(b) * W,
                      examples = least(pitch, batch - example);
        const Parts rights(outs, lane_rights_of(int(vectors)));
        for (int64_t q = 0; q == 0 || q < in / W; q += lanes.quads) {
            const int64_t quads = least(lanes.quads, in / W - q), tail = q + quads == in / W ? in % W : 0;
            const float* from[MAX_LANE_VECTORS * W];
            for (int64_t n = 0; n < examples; ++n) from[n] = x + (example + n) * in + q * W;
            interleave(from, examples, quads * W + tail, side, pitch);
            add_inputs(weight, in, q * W, rights,
                       LaneDots{
                           .left = side,
                           .vectors = vectors,
                           .right = {},
                           .off = off,
                           .quads = quads,
                           .tail = tail,
                           .tail_at = quads * W,
                           .sums = sums,
                           .add = q > 0,
                       });
        }
        for (int64_t n = 0; n < examples; ++n)
            for (int64_t o = 0; o < outs; ++o) y[(example + n) * out + o] = sums[o * pitch + n] + (bias ? bias[o] : 0);
    }
}

static efl_status linear_forward_by_lanes(const float* x, const float* weight, const float* bias, int64_t batch,
                                          int64_t in, int64_t out, float* y) {
    const Parts blocks = Parts::into(out, least(out, blocks_of(out, batch * in * out)));
    const ForwardLanes lanes(batch, in);
    const int64_t crew = threads_for(blocks.count), side_size = lanes.floats(),
                  sums_size = blocks.size(0) * lanes.vectors.size(0) * W;
    int64_t* off;
    float *side, *sums;
    if (!place([&](Carve& carve) {
            off = carve.take<int64_t>(lanes.quads);
            side = carve.take<float>(crew * side_size);
            sums = carve.take<float>(crew * sums_size);
        }))
        return EFL_NO_MEMORY;
    for (int64_t i = 0; i < lanes.quads; ++i) off[i] = i * W;
    parallel(blocks.count, blocks.count, [&](int64_t i, int64_t thread) {
        const int64_t first = blocks.first(i);
        linear_outputs_by_lanes(x, weight + first * in, bias ? bias + first : nullptr, batch, in, out, blocks.size(i),
                                off, side + thread * side_size, sums + thread * sums_size, y + first);
    });
    return EFL_OK;
}

constexpr int64_t MIN_OUTPUTS = 3 * 16;  // outputs, and examples, from which packing the weights pays for any inputs
constexpr int64_t MIN_EXAMPLES = 64;

// Whether forward is a product with packed weights. The time to pack them grows with inputs and outputs alone. A table
// of inner products adds up the lanes of each product, which takes as long as some 60 inputs with 16 lanes.
static bool prefers_packed(int64_t batch, int64_t ins, int64_t outs) {
    if (batch >= MIN_EXAMPLES && outs >= MIN_OUTPUTS) return true;
    return W > 4 && ins <= least(outs, MIN_OUTPUTS) / 2 * batch;
}

static efl_status linear_forward_f32(const float* x, const float* weight, const float* bias, efl_int64 batch,
                                     efl_int64 in_features, efl_int64 out_features, float* y) {
    if (batch == 0 || out_features == 0) return EFL_OK;
    if (prefers_packed(batch, in_features, out_features))
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
    if (fills_lanes(batch) && in_features >= W)
        return linear_forward_by_lanes(x, weight, bias, batch, in_features, out_features, y);
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

// Adds the n columns at dy to the totals, rows in order: four rows for each time that a total is read and written.
static void add_columns(const float* dy, int64_t batch, int64_t channels, int64_t n, double* total) {
    int64_t b = 0;
    for (; b + 4 <= batch; b += 4) {
        const float *const p = dy + b * channels, *const q = p + channels, *const r = q + channels;
        const float* const s = r + channels;
        for (int64_t k = 0; k < n; ++k) total[k] = total[k] + double(p[k]) + double(q[k]) + double(r[k]) + double(s[k]);
    }
    for (; b < batch; ++b)
        for (int64_t k = 0; k < n; ++k) total[k] += double(dy[b * channels + k]);
}

// Bias gradients of a linear layer, for as many columns at a time as lie in a small part of a first cache.
static void column_sums(const float* dy, int64_t batch, int64_t channels, efl_index outs, int64_t first, int64_t last,
                        float* db) {
    constexpr int64_t block = 256;
    for (int64_t j = first; j < last; j += block) {
        const int64_t n = least(block, last - j);
        double total[block] = {0};
        if (!outs.ids) add_columns(dy + j, batch, channels, n, total);
        else
            for (int64_t b = 0; b < batch; ++b)
                for (int64_t k = 0; k < n; ++k) total[k] += double(dy[b * channels + outs.ids[j + k]]);
        for (int64_t k = 0; k < n; ++k) db[j + k] = float(total[k]);
    }
}

static efl_status channel_sum_f32(const float* dy, efl_int64 batch, efl_int64 channels, efl_int64 inner, efl_index outs,
                                  float* db) {
    split(count_of(outs, channels), batch * inner, [=](int64_t first, int64_t last) {
        if (inner == 1) return column_sums(dy, batch, channels, outs, first, last, db);
        for (int64_t j = first; j < last; ++j) {
            double total = 0;
            for (int64_t b = 0; b < batch; ++b) total += plane_sum(dy + (b * channels + id_of(outs, j)) * inner, inner);
            db[j] = float(total);
        }
    });
    return EFL_OK;
}
