// Weight gradient of a convolution whose dy is mostly zeros: the terms of a sum are the positions at which dy is not
// zero. x is laid out channels-last, as in weight_by_channels.
//
// Whether the way is taken depends on the shape and on the number of zeros, and so not on the number of threads. A zero
// of dy meets no x, so an infinite x spoils nothing where dy is zero.

// The positions of one output's dy in a pass that are not zero: [image][nonzero], and where each image's end.
struct MetPositions {
    const int32_t* position;
    const int64_t* end;
    int64_t images, positions;  // positions of a plane
    const float* dy;
    int64_t dy_step;     // floats from one image's plane to the next
    const int64_t* off;  // [image][position], in x
};

// The sums of a run of ROWS rows of N vectors: c += dy times x.
template <int ROWS, int N>
struct WeightRun {
    static void run(const MetPositions& met, const float* x, int64_t step, float* c) {
        vf sums[ROWS * N];
        EFL_UNROLL
        for (int j = 0; j < ROWS * N; ++j) sums[j] = load(c + j * W);
        int64_t first = 0;
        for (int64_t n = 0; n < met.images; first = met.end[n++]) {
            const NonzeroTerms terms{
                .place = met.position + first,
                .count = met.end[n] - first,
                .factor = met.dy + n * met.dy_step,
                .off = met.off + n * met.positions,
            };
            add_terms<ROWS, N>(terms, x, step, sums);
        }
        EFL_UNROLL
        for (int j = 0; j < ROWS * N; ++j) store(c + j * W, sums[j]);
    }
};

// The sums of one output, over the images of a pass.
static void add_output(const ChannelPlan& plan, int64_t o, int64_t image, int64_t images) {
    const WeightGradient& w = plan.w;
    const int64_t positions = w.positions(), all = plan.per_group * positions;
    int32_t* const list = reinterpret_cast<int32_t*>(plan.dy) + o * all;
    int64_t end[PASS_POSITIONS], n = 0;  // an image has a position or more
    for (int64_t i = 0; i < images; ++i) end[i] = n += list_nonzeros(w.dy_plane(image + i, o), positions, list + n);
    MetPositions met{
        .position = list,
        .end = end,
        .images = images,
        .positions = positions,
        .dy = w.dy_plane(image, o),
        .dy_step = w.conv.out_channels * positions,
        .off = plan.off,
    };
    for (int64_t c = 0; c < plan.channels.count; ++c) {
        const int64_t size = plan.channels.size(c), vectors = plan.run(c) / W;
        const int64_t step = w.conv.dil_h * plan.width * size;  // floats of x from one row of taps to the next
        met.off = plan.off + (size < plan.channels.size(0) ? all : 0);
        const Parts parts(plan.segments, rows_together(plan.segments, vectors));
        for (int64_t p = 0; p < parts.count; ++p)
            body_of<WeightRun>(parts.size(p), vectors)(
                met, plan.x_panel(c) + parts.first(p) * step, step,
                plan.sums + o * plan.pitch + plan.start_of(c) + parts.first(p) * plan.run(c));
    }
}

static void add_nonzeros(const ChannelPlan& plan, int64_t first, int64_t count) {
    const int64_t macs = plan.w.positions() * plan.outs * plan.channels.total * plan.w.taps() / MOST_NONZEROS;
    for (int64_t image = first; image < first + count; image += plan.per_group) {
        const int64_t images = least(plan.per_group, first + count - image);
        each_block(plan.channels.count, macs * images, [&](int64_t c) { fill_channels(plan, c, image, images); });
        each_block(plan.rows.count, macs * images, [&](int64_t p) {
            for (int64_t o = plan.rows.first(p); o < plan.rows.first(p) + plan.rows.size(p); ++o)
                add_output(plan, o, image, images);
        });
    }
}

// Returns false where there is no memory, or dy has too few zeros. dy is not looked at before there is memory, because
// a call that counts memory may have no values.
static bool weight_by_nonzeros(const WeightGradient& w) {
    ChannelPlan plan(w);
    const auto lay_out = [&](Carve& carve) { plan.lay_out(carve); };
    if (!place(lay_out) || !is_mostly_zeros(w.conv, w.dy, w.outs, w.positions())) return false;
    tabulate_positions(plan, plan.channels.size(0), plan.off);
    tabulate_positions(plan, plan.channels.size(plan.channels.count - 1), plan.off + plan.per_group * w.positions());
    zero_floats(plan.x, plan.chunks.count * plan.x_size());
    zero_floats(plan.sums, plan.chunks.count * plan.sums_size());
    each_block(plan.chunks.count, w.conv.batch * w.positions() * plan.outs * plan.channels.total * w.taps(),
               [&](int64_t k) { add_nonzeros(plan.of_chunk(k), plan.chunks.first(k), plan.chunks.size(k)); });
    write_weights(plan);
    return true;
}
