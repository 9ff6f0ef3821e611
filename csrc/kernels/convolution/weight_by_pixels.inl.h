// Weight gradient of a convolution, lanes over pixels: inner products of dy planes with shifted planes of x: padded
// ones, or where that costs less one for every tap, which dy meets without gaps.
//
// A weight's sum stays spread over the lanes of one word while the images pass, and is summed across lanes at the end.
// Images are cut into a few chunks, a number that depends on the shape alone; their partial sums are added in order.
// Cost follows |outs| * |ins|: planes of other channels are neither copied nor read. A zero of dy's padding multiplies
// a pixel of the row's end, so an infinite pixel spoils more of dw than its own taps.

// One group's active channels: outs[out, out + outs), and the planes of x that meet them.
struct WeightGroup {
    int64_t out, outs, in, ins, sums;
};

// Calls visit(group) for every group with an active output, in order.
template <class Visit>
static void each_weight_group(const WeightGradient& w, Visit&& visit) {
    const int64_t count = count_of(w.outs, w.conv.out_channels), ins = w.ins_per_group();
    WeightGroup g{.out = 0, .outs = 0, .in = 0, .ins = ins, .sums = 0};
    for (int64_t compact = 0; g.out < count; ++compact) {
        const int64_t group = id_of(w.outs, g.out) / w.geometry.out_group;
        g.in = w.x_channels == w.conv.in_channels ? group * w.geometry.in_group : compact;
        if (w.conv.groups == 1) g.in = 0;
        for (g.outs = 0; g.out + g.outs < count && id_of(w.outs, g.out + g.outs) / w.geometry.out_group == group;)
            ++g.outs;
        visit(g);
        g.out += g.outs;
        g.sums += g.outs * ins * w.taps();
    }
}

// What all chunks share, and the memory of each, in the caller's scratch.
struct WeightPlan {
    int64_t total = 0, outs = 0, ins;  // weights of dw; most outputs and inputs of a group
    TapPlanes taps;
    int64_t chunks, row, words,
        tail;     // row: floats between rows of dy as the kernel reads it; tail: lanes of one more word
    bool flat;    // x lies in planes for every tap
    bool direct;  // dy has no gaps: read it in place
    int64_t *off, *term;
    CellBlock* block;
    float *planes, *dy, *partial;
    vf* sums;
    CellCopies cells;  // of a channel of x into its planes

    explicit WeightPlan(const WeightGradient& w) : ins(w.ins_per_group()), taps(w.planes) {
        each_weight_group(w, [&](const WeightGroup& g) {
            total += g.outs * g.ins * w.taps();
            outs = g.outs > outs ? g.outs : outs;
        });
        const Geometry& g = w.geometry;
        const int64_t padded = (g.out_w + W - 1) / W * W;
        row = w.conv.stride_h == 1 && w.planes.pitch < padded ? w.planes.pitch
                                                              : padded;  // if narrow, let words run across rows
        words = ((g.out_h - 1) * row + g.out_w + W - 1) / W;
        direct = g.out_w % W == 0;
        const int64_t flat_words = w.positions() / W,
                      pairs = outs * ins * w.taps() / 2;  // a cycle has two products of words,
        const int64_t gapped =
            ins * w.planes.size() + (direct ? 0 : outs * w.positions()) + pairs * words;  // or copies a float
        flat = ins * taps.size() + pairs * (flat_words + 1) < gapped;
        tail = flat ? w.positions() % W : 0;
        if (flat) words = flat_words, direct = true;
        const int64_t wanted = (w.conv.batch + 7) / 8;
        chunks = wanted < 4 ? wanted : 4;
    }

    int64_t channel_size(const WeightGradient& w) const { return flat ? taps.size() : w.planes.size(); }
    int64_t planes_size(const WeightGradient& w) const { return ins * channel_size(w) + W; }
    int64_t dy_size() const { return direct ? 0 : outs * words * W; }

    // Where the cells of a tap start in a channel.
    int64_t at(const WeightGradient& w, int64_t kh, int64_t kw) const {
        return flat ? taps.at(kh, kw) : w.planes.at(w.planes.rows.shift(kh), w.planes.cols.shift(kw));
    }

    void lay_out(const WeightGradient& w, Carve& carve) {
        off = carve.take<int64_t>(words);
        term = carve.take<int64_t>(ins * w.taps());
        block = carve.take<CellBlock>(flat ? taps.count() : w.planes.phases);
        planes = carve.take<float>(chunks * planes_size(w));
        dy = carve.take<float>(chunks * dy_size());
        partial = carve.take<float>(chunks * total);
        sums = carve.take<vf>(chunks * total);
    }
};

static void tabulate(const WeightGradient& w, WeightPlan& plan) {
    plan.cells = plan.flat ? plan.taps.copies(plan.block) : w.planes.copies(plan.block);
    const int64_t words_per_row = plan.flat || plan.row % W ? 0 : plan.row / W;
    for (int64_t n = 0; n < plan.words; ++n)
        plan.off[n] =
            words_per_row ? n / words_per_row * w.conv.stride_h * w.planes.pitch + n % words_per_row * W : n * W;
    int64_t* term = plan.term;
    for (int64_t i = 0; i < plan.ins; ++i)
        for (int64_t kh = 0; kh < w.conv.kernel_h; ++kh)
            for (int64_t kw = 0; kw < w.conv.kernel_w; ++kw) *term++ = i * plan.channel_size(w) + plan.at(w, kh, kw);
}

// Adds one image to the sums of one group: [block of outputs][block of terms][output][term].
static void add_image(const WeightGradient& w, const WeightPlan& plan, const WeightGroup& g, int64_t image, bool first,
                      const float* planes, float* gapped, vf* sums) {
    const int64_t terms = g.ins * w.taps();
    const Parts lefts(g.outs, MAX_LEFT);
    if (!plan.direct)
        for (int64_t j = 0; j < g.outs; ++j)
            for (int64_t r = 0; r < w.geometry.out_h; ++r)
                copy_floats(gapped + j * plan.words * W + r * plan.row,
                            w.dy_plane(image, g.out + j) + r * w.geometry.out_w, w.geometry.out_w);
    for (int64_t l = 0; l < lefts.count; ++l) {
        const int64_t left = lefts.size(l);
        const Parts rights(terms, rights_of(int(left)));
        for (int64_t r = 0; r < rights.count; sums += left * rights.size(r), ++r) {
            Dots d{
                .left = {},
                .right = {},
                .off = plan.off,
                .words = plan.words,
                .tail = plan.tail,
                .sums = sums,
                .add = !first,
            };
            for (int64_t m = 0; m < left; ++m) {
                const int64_t j = lefts.first(l) + m;
                d.left[m] = plan.direct ? w.dy_plane(image, g.out + j) : gapped + j * plan.words * W;
            }
            for (int64_t k = 0; k < rights.size(r); ++k) d.right[k] = planes + plan.term[rights.first(r) + k];
            dot_products(d, left, rights.size(r));
        }
    }
}

// dw of one group = the chunks' partial sums, in order.
static void add_chunks(const WeightGradient& w, const WeightPlan& plan, const WeightGroup& g) {
    const int64_t terms = g.ins * w.taps();
    const Parts lefts(g.outs, MAX_LEFT);
    const float* from = plan.partial + g.sums;
    for (int64_t l = 0; l < lefts.count; ++l) {
        const Parts rights(terms, rights_of(int(lefts.size(l))));
        for (int64_t r = 0; r < rights.count; ++r)
            for (int64_t m = 0; m < lefts.size(l); ++m)
                for (int64_t k = 0; k < rights.size(r); ++k, ++from) {
                    float total = *from;
                    for (int64_t c = 1; c < plan.chunks; ++c) total += from[c * plan.total];
                    w.dw[g.sums + (lefts.first(l) + m) * terms + rights.first(r) + k] = total;
                }
    }
}

static efl_status weight_by_pixels(const WeightGradient& w) {
    WeightPlan plan(w);
    if (!place([&](Carve& carve) { plan.lay_out(w, carve); })) return EFL_NO_MEMORY;
    tabulate(w, plan);
    zero_floats(plan.planes, plan.chunks * plan.planes_size(w));
    zero_floats(plan.dy, plan.chunks * plan.dy_size());
    const Parts chunks(w.conv.batch, (w.conv.batch + plan.chunks - 1) / plan.chunks);
    plan.chunks = chunks.count;
    each_block(chunks.count, plan.total * w.positions() * w.conv.batch, [&](int64_t c) {
        float* planes = plan.planes + c * plan.planes_size(w);
        for (int64_t n = 0; n < chunks.size(c); ++n) {
            const int64_t image = chunks.first(c) + n;
            each_weight_group(w, [&](const WeightGroup& g) {
                for (int64_t i = 0; i < g.ins; ++i)
                    plan.cells.fill(w.x_plane(image, g.in + i), planes + i * plan.channel_size(w));
                add_image(w, plan, g, image, n == 0, planes, plan.dy + c * plan.dy_size(),
                          plan.sums + c * plan.total + g.sums);
            });
        }
        sum_lanes(plan.sums + c * plan.total, plan.total, plan.partial + c * plan.total);
    });
    each_weight_group(w, [&](const WeightGroup& g) { add_chunks(w, plan, g); });
    return EFL_OK;
}
