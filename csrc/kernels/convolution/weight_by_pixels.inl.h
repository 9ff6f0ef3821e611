// Weight gradient of a convolution, lanes over pixels: inner products of dy planes with shifted planes of x: padded
// ones, or where that costs less one for every tap, which dy meets without gaps.
//
// A weight's sum stays spread over the lanes of one vector while the images pass, and is summed across lanes at the
// end. Images are cut into a few chunks, a number that depends on the shape alone; their partial sums are added in
// order. Cost follows |outs| * |ins|: planes of other channels are neither copied nor read. A zero of dy's padding
// multiplies a pixel of the row's end, so an infinite pixel spoils more of dw than its own taps.

// The left rows of one group in blocks, and the terms that meet a block of so many.
static Parts left_blocks(const WeightPlan& plan, const WeightGroup& g) {
    return Parts(plan.turned ? g.ins : g.outs, plan.by_lanes ? 1 : PIXEL_LEFTS);
}
static Parts right_blocks(const WeightGradient& w, const WeightPlan& plan, const WeightGroup& g, int64_t lefts) {
    if (plan.by_lanes) return Parts::into((plan.turned ? g.outs : g.ins) * w.taps(), 1);
    return Parts((plan.turned ? g.outs : g.ins) * w.taps(), rights_of(int(lefts)));
}

// Adds `count` images to the sums of one group: [block of left rows][block of terms][left row][term].
static void add_images(const WeightGradient& w, const WeightPlan& plan, const WeightGroup& g, int64_t image,
                       int64_t count, bool first) {
    for (int64_t n = 0; n < count; ++n)
        fill_image(w, plan, g, image + n, plan.planes + n * plan.planes_size(w), plan.dy + n * plan.dy_size());
    Dots d{
        .left = {},
        .right = {},
        .off = plan.off,
        .vectors = plan.vectors,
        .tail = plan.tail,
        .sums = plan.sums + g.sums,
        .add = !first,
        .runs = count,
        .left_step = left_step(w, plan),
        .right_step = plan.planes_size(w),
    };
    const Parts lefts = left_blocks(plan, g);
    for (int64_t l = 0; l < lefts.count; ++l) {
        const int64_t left = lefts.size(l);
        const Parts rights = right_blocks(w, plan, g, left);
        const int64_t* term = plan.term;
        for (int64_t m = 0; m < left; ++m) d.left[m] = left_row(w, plan, g, image, lefts.first(l) + m);
        for (int64_t r = 0; r < rights.count; ++r) {
            const int64_t right = rights.size(r);
            for (int64_t k = 0; k < right; ++k) d.right[k] = plan.planes + *term++;
            dot_products(d, left, right);
            d.sums += left * right;
        }
    }
}

// dw of one group = the chunks' partial sums, in order.
static void add_chunks(const WeightGradient& w, const WeightPlan& plan, const WeightGroup& g) {
    const int64_t taps = w.taps(), terms = g.ins * taps;
    const float* from = plan.partial + g.sums;
    const Parts lefts = left_blocks(plan, g);
    for (int64_t l = 0; l < lefts.count; ++l) {
        const Parts rights = right_blocks(w, plan, g, lefts.size(l));
        for (int64_t r = 0; r < rights.count; ++r)
            for (int64_t m = lefts.first(l); m < lefts.first(l) + lefts.size(l); ++m)
                for (int64_t k = rights.first(r); k < rights.first(r) + rights.size(r); ++k, ++from) {
                    float total = *from;
                    for (int64_t c = 1; c < plan.chunks.count; ++c) total += from[c * plan.total];
                    w.dw[g.sums + (plan.turned ? k / taps * terms + m * taps + k % taps : m * terms + k)] = total;
                }
    }
}

static efl_status weight_by_pixels(const WeightGradient& w) {
    WeightPlan plan(w);
    const int64_t macs = plan.total * w.positions() * w.conv.batch,
                  crew = threads_for(macs < THREAD_MACS ? 1 : plan.chunks.count);
    if (!place([&](Carve& carve) { plan.lay_out(w, carve, crew); })) return EFL_NO_MEMORY;
    tabulate(w, plan);
    zero_floats(plan.planes, crew * plan.pass * plan.planes_size(w));
    zero_floats(plan.dy, crew * plan.pass * plan.dy_size());
    each_block(plan.chunks.count, macs, crew, [&](int64_t c, int64_t thread) {
        const WeightPlan own = plan.of_thread(w, thread);
        const int64_t first = plan.chunks.first(c), last = first + plan.chunks.size(c);
        for (int64_t image = first; image < last; image += plan.pass)
            each_weight_group(w, [&](const WeightGroup& g) {
                if (own.by_lanes)
                    return add_images_by_lanes(w, own, g, image, least(plan.pass, last - image), image == first);
                add_images(w, own, g, image, least(plan.pass, last - image), image == first);
            });
        float* const partial = plan.partial + c * plan.total;
        if (own.by_lanes) return each_weight_group(w, [&](const WeightGroup& g) { collect_lanes(w, own, g, partial); });
        sum_lanes(own.sums, plan.total, partial);
    });
    each_weight_group(w, [&](const WeightGroup& g) { add_chunks(w, plan, g); });
    return EFL_OK;
}
