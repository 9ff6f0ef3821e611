// How the weight gradient by pixels (weight_by_pixels.inl.h) is laid out: one operand in shifted planes, the channels
// of the other as left rows of the products.

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

constexpr int64_t PIXEL_LEFTS = 4;     // left rows of a block: with six of AVX-512 L1 does not keep up
constexpr int64_t PASS_FLOATS = 4096;  // of the left rows of a block, which stay in L1 while terms pass by

// What all chunks share, and the memory of each thread, in the caller's scratch. One operand lies in planes, the
// shifted one; the channels of the other are the left rows of the products and are read in place where they can be.
struct WeightPlan {
    int64_t total = 0, outs = 0, ins;  // weights of dw; most outputs and inputs of a group
    TapPlanes taps;
    bool flat;    // the shifted operand lies in planes for every tap
    bool turned;  // which is dy, not x
    bool direct;  // the other one has no gaps: read it in place
    Parts chunks;
    int64_t pass;           // images at a time
    int64_t row;            // floats between rows of dy as the kernel reads it
    int64_t vectors, tail;  // tail: lanes of one more vector
    int64_t *off, *term;
    CellBlock* block;
    float *planes, *dy, *partial;
    vf* sums;
    bool by_lanes;       // of one group, whose left rows are the lanes of the products (pixel_lanes.inl.h)
    float* lanes;        // where they lie side by side
    int64_t lanes_size;  // floats
    CellCopies cells;    // of a channel into its planes

    explicit WeightPlan(const WeightGradient& w)
        : ins(w.ins_per_group()), taps(w.planes), chunks(Parts::into(w.conv.batch, least(4, (w.conv.batch + 7) / 8))) {
        each_weight_group(w, [&](const WeightGroup& g) {
            total += g.outs * g.ins * w.taps();
            outs = g.outs > outs ? g.outs : outs;
        });
        const Geometry& g = w.geometry;
        const int64_t padded = (g.out_w + W - 1) / W * W;
        row = w.conv.stride_h == 1 && w.planes.pitch < padded ? w.planes.pitch
                                                              : padded;  // if narrow, let vectors run across rows
        vectors = ((g.out_h - 1) * row + g.out_w + W - 1) / W;
        direct = g.out_w % W == 0;
        choose_planes(w);
        if (flat) vectors = in_place(w) / W, direct = true;
        tail = flat ? in_place(w) % W : 0;
        by_lanes = w.conv.groups == 1 && fills_lanes(lefts());
        const int64_t side_by_side = by_lanes ? least(lefts(), MAX_LANE_VECTORS * W) : PIXEL_LEFTS;
        const int64_t fit = PASS_FLOATS / (side_by_side * vectors * W + 1);
        pass = fit < 1 ? 1 : least(chunks.size(0), fit);
        lanes_size = by_lanes ? lane_floats() : 0;
    }

    // Of x one plane, or one for every tap where that costs less; or planes of dy, whose channels are far fewer: their
    // own products would load a vector for each.
    void choose_planes(const WeightGradient& w) {
        const int64_t pairs = outs * ins * w.taps() / 2;  // a cycle has two products of vectors, or copies a float
        const int64_t gapped = ins * w.planes.size() + (direct ? 0 : outs * w.positions()) + pairs * vectors;
        turned = 2 * outs <= ins && w.conv.groups == 1 && w.conv.stride_h == 1 && w.conv.stride_w == 1;
        if (turned) taps = TapPlanes(transposed_planes(w.conv, w.geometry, 0, 0));
        flat = turned || ins * taps.size() + pairs * (w.positions() / W + 1) < gapped;
    }

    // Channels that are shifted, those that are not, and the cells of one of the latter.
    int64_t shifted() const { return turned ? outs : ins; }
    int64_t lefts() const { return turned ? ins : outs; }
    int64_t in_place(const WeightGradient& w) const { return turned ? w.conv.height * w.conv.width : w.positions(); }

    int64_t channel_size(const WeightGradient& w) const { return flat ? taps.size() : w.planes.size(); }
    int64_t planes_size(const WeightGradient& w) const { return shifted() * channel_size(w) + W; }
    int64_t dy_size() const { return direct ? 0 : outs * vectors * W; }

    int64_t lane_floats() const;

    // Where the cells of a tap start in a channel.
    int64_t at(const WeightGradient& w, int64_t kh, int64_t kw) const {
        return flat ? taps.at(kh, kw) : w.planes.at(w.planes.rows.shift(kh), w.planes.cols.shift(kw));
    }

    void lay_out(const WeightGradient& w, Carve& carve, int64_t crew) {
        off = carve.take<int64_t>(vectors);
        term = carve.take<int64_t>(shifted() * w.taps());
        block = carve.take<CellBlock>(flat ? taps.count() : w.planes.phases);
        planes = carve.take<float>(crew * pass * planes_size(w));
        dy = carve.take<float>(crew * pass * dy_size());
        lanes = carve.take<float>(crew * lanes_size);
        partial = carve.take<float>(chunks.count * total);
        sums = carve.take<vf>(crew * total);
    }

    // With the memory of a thread.
    WeightPlan of_thread(const WeightGradient& w, int64_t thread) const {
        WeightPlan own = *this;
        own.planes += thread * pass * planes_size(w), own.dy += thread * pass * dy_size(), own.sums += thread * total;
        own.lanes += thread * lanes_size;
        return own;
    }
};

static void tabulate(const WeightGradient& w, WeightPlan& plan) {
    plan.cells = plan.flat ? plan.taps.copies(plan.block) : w.planes.copies(plan.block);
    const int64_t vectors_per_row = plan.flat || plan.row % W ? 0 : plan.row / W;
    for (int64_t n = 0; n < plan.vectors; ++n)
        plan.off[n] =
            vectors_per_row ? n / vectors_per_row * w.conv.stride_h * w.planes.pitch + n % vectors_per_row * W : n * W;
    int64_t* term = plan.term;
    for (int64_t i = 0; i < plan.shifted(); ++i)
        for (int64_t kh = 0; kh < w.conv.kernel_h; ++kh)
            for (int64_t kw = 0; kw < w.conv.kernel_w; ++kw) *term++ = i * plan.channel_size(w) + plan.at(w, kh, kw);
}

// The planes of an image, and dy with its gaps; what lies between is already zero.
static void fill_image(const WeightGradient& w, const WeightPlan& plan, const WeightGroup& g, int64_t image,
                       float* planes, float* gapped) {
    const int64_t width = w.geometry.out_w;
    for (int64_t i = 0; i < (plan.turned ? g.outs : g.ins); ++i)
        plan.cells.fill(plan.turned ? w.dy_plane(image, g.out + i) : w.x_plane(image, g.in + i),
                        planes + i * plan.channel_size(w));
    for (int64_t j = 0; j < (plan.direct ? 0 : g.outs); ++j)
        copy_rows(gapped + j * plan.vectors * W, plan.row, w.dy_plane(image, g.out + j), width, w.geometry.out_h,
                  width);
}

// Where channel m of what is not shifted lies, and how far the next image's is.
static const float* left_row(const WeightGradient& w, const WeightPlan& plan, const WeightGroup& g, int64_t image,
                             int64_t m) {
    if (plan.turned) return w.x_plane(image, g.in + m);
    return plan.direct ? w.dy_plane(image, g.out + m) : plan.dy + m * plan.vectors * W;
}

static int64_t left_step(const WeightGradient& w, const WeightPlan& plan) {
    return plan.direct ? (plan.turned ? w.x_channels : w.conv.out_channels) * plan.in_place(w) : plan.dy_size();
}
