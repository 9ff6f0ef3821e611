// Depthwise convolutions, a channel from each channel: forward, input gradient and weight gradient, for any kernel,
// stride, padding and dilation.
//
// Lanes are channels. The planes of a vector of channels are turned into vectors of cells, among vectors of zeros, so
// that every tap is a shifted pointer and the positions of all rows are one run of vectors; what the run computes at
// the end of a row, where it crosses to the next, is left out of the result. A stride divides the source into a plane
// for each of its phases (forward), or has results for each of its phases, which the same source gives (input
// gradient).

// One axis of a source among zeros: `length` cells from `origin` on in each of `step` phases.
struct PaddedAxis {
    int64_t source, origin, step, length;

    PaddedAxis(const Axis* phases, int64_t count) : source(phases[0].source), origin(0), step(phases[0].step) {
        int64_t end = source;
        for (int64_t p = 0; p < count; ++p) {
            origin = least(origin, phases[p].origin);
            const int64_t reach = (phases[p].count - 1) * step + phases[p].last + 1;
            end = reach > end ? reach : end;
        }
        length = (end - origin + step - 1) / step;
    }
    int64_t phase(int64_t cell) const { return (cell - origin) % step; }
    int64_t position(int64_t cell) const { return (cell - origin) / step; }
};

struct PaddedPlane {
    PaddedAxis rows, cols;

    int64_t pitch() const { return cols.length; }
    int64_t size() const { return rows.step * cols.step * rows.length * pitch(); }
    int64_t source() const { return rows.source * cols.source; }
    // Where a cell of the source lies, or a tap meets the first position.
    int64_t at(int64_t row, int64_t col) const {
        const int64_t phase = rows.phase(row) * cols.step + cols.phase(col);
        return (phase * rows.length + rows.position(row)) * pitch() + cols.position(col);
    }
    void tabulate_cells(int64_t* to) const {
        for (int64_t i = 0; i < source(); ++i) to[i] = at(i / cols.source, i % cols.source) * VECTOR_BYTES;
    }
};

// Cell i of W planes, as a vector at[i] bytes from `to`.
static void gather_cells(const float* const* planes, int64_t cells, const int64_t* at, float* to) {
    const float* from[W];  // copies, which no store changes
    EFL_UNROLL
    for (int m = 0; m < W; ++m) from[m] = planes[m];
    int64_t i = 0;
    for (; i + W <= cells; i += W) {
        vf v[W];
        int64_t places[W];
        EFL_UNROLL
        for (int m = 0; m < W; ++m) v[m] = load(from[m] + i), places[m] = at[i + m];
        turn(v);
        EFL_UNROLL
        for (int k = 0; k < W; ++k) store(vector_at(to, places[k]), v[k]);
    }
    if (i == cells) return;
    vf v[W];
    EFL_UNROLL
    for (int m = 0; m < W; ++m) v[m] = load_n(planes[m] + i, int(cells - i));
    turn(v);
    for (int k = 0; i < cells; ++i, ++k) store(vector_at(to, at[i]), v[k]);
}

// The other way, for the first `lanes` planes.
static void scatter_cells(const float* from, const int64_t* at, int64_t cells, int lanes, float* const* planes) {
    int64_t i = 0;
    for (; lanes == W && i + W <= cells; i += W) {
        vf v[W];
        EFL_UNROLL
        for (int k = 0; k < W; ++k) v[k] = load(vector_at(from, at[i + k]));
        turn(v);
        EFL_UNROLL
        for (int m = 0; m < W; ++m) store(planes[m] + i, v[m]);
    }
    for (; i < cells; i += W) {
        const int n = int(least(W, cells - i));
        vf v[W];
        for (int k = 0; k < W; ++k) v[k] = load(vector_at(from, at[i + (k < n ? k : 0)]));
        turn(v);
        for (int m = 0; m < lanes; ++m) n == W ? store(planes[m] + i, v[m]) : store_n(planes[m] + i, v[m], n);
    }
}

// The positions (row, row + spread, ...) by (col, ...) of a target: a run, and taps [first, first + taps).
struct TargetPhase {
    int64_t run, first, taps;
};

// A convolution or its input gradient. The target has spread_h * spread_w phases, whose axes are given.
struct Depthwise {
    const efl_conv2d& c;
    const float *source, *weight, *bias;
    float* target;
    efl_index sources, targets;
    const Axis *rows, *cols;
    int64_t height, width, spread_h, spread_w;  // of the target
    PaddedPlane padded;
    int64_t blocks = 0;
    int64_t *off = nullptr, *from = nullptr, *to = nullptr;  // bytes: of taps; of the source's cells; of the target's
    int64_t* tap = nullptr;                                  // numbers in the kernel
    TargetPhase* phase = nullptr;
    float *packed = nullptr, *start = nullptr, *zeros = nullptr, *memory = nullptr;
    uint8_t* reached = nullptr;  // which channels have a source

    int64_t kernel() const { return c.kernel_h * c.kernel_w; }
    int64_t phases() const { return spread_h * spread_w; }
    int64_t count() const { return count_of(targets, c.in_channels); }
    int64_t vectors() const { return (count() + W - 1) / W; }
    int64_t phase_floats() const { return padded.rows.length * padded.pitch() * W; }
    int64_t thread_floats() const { return padded.size() * W + phases() * phase_floats(); }

    void lay_out(Carve& carve) {
        off = carve.take<int64_t>(kernel());
        tap = carve.take<int64_t>(kernel());
        from = carve.take<int64_t>(padded.source());
        to = carve.take<int64_t>(height * width);
        phase = carve.take<TargetPhase>(phases());
        packed = carve.take<float>(vectors() * kernel() * W);
        start = carve.take<float>(vectors() * W);
        zeros = carve.take<float>(padded.source());
        reached = carve.take<uint8_t>(c.in_channels);
        memory = carve.take<float>(threads_for(blocks) * thread_floats());
    }
};

// The taps of a phase after those of the phases before, and the weights that all channels have there.
static int64_t tabulate_phase(Depthwise& d, int64_t p, int64_t first) {
    const Axis &rows = d.rows[p / d.spread_w], &cols = d.cols[p % d.spread_w];
    int64_t n = first;
    for (int64_t k = 0; k < d.kernel(); ++k) {
        const int64_t kh = k / cols.kernel, kw = k % cols.kernel;
        if (!rows.reaches(kh) || !cols.reaches(kw)) continue;
        d.tap[n] = k;
        d.off[n++] = d.padded.at(rows.shift(kh), cols.shift(kw)) * VECTOR_BYTES;
    }
    for (int64_t i = 0; i < d.count(); ++i) {
        const float* from = d.weight + id_of(d.targets, i) * d.kernel();
        float* to = d.packed + i / W * d.kernel() * W + i % W;
        for (int64_t t = first; t < n; ++t) to[t * W] = from[d.tap[t]];
    }
    d.phase[p] = TargetPhase{(rows.count - 1) * d.padded.pitch() + cols.count, first, n - first};
    return n;
}

static void tabulate(Depthwise& d) {
    zero_floats(d.packed, d.vectors() * d.kernel() * W);
    zero_floats(d.start, d.vectors() * W);
    zero_floats(d.zeros, d.padded.source());
    for (int64_t i = 0; i < threads_for(d.blocks); ++i)
        zero_floats(d.memory + i * d.thread_floats(), d.padded.size() * W);
    for (int64_t p = 0, taps = 0; p < d.phases(); ++p) taps = tabulate_phase(d, p, taps);
    for (int64_t i = 0; d.bias && i < d.count(); ++i) d.start[i] = d.bias[id_of(d.targets, i)];
    d.padded.tabulate_cells(d.from);
    for (int64_t i = 0; i < d.height * d.width; ++i) {
        const int64_t r = i / d.width, q = i % d.width, p = r % d.spread_h * d.spread_w + q % d.spread_w;
        d.to[i] = (p * d.phase_floats() / W + r / d.spread_h * d.padded.pitch() + q / d.spread_w) * VECTOR_BYTES;
    }
    std::memset(d.reached, !d.sources.ids, size_t(d.c.in_channels));
    for (int64_t i = 0; d.sources.ids && i < d.sources.count; ++i) d.reached[d.sources.ids[i]] = 1;
}

// Convolves a vector of channels of one image, in the caller's part of the memory.
static void convolve_vector(const Depthwise& d, int64_t image, int64_t vector, float* cells) {
    const int lanes = int(least(W, d.count() - vector * W));
    const float* from[W];
    float* to[W];
    for (int m = 0; m < W; ++m) {
        const int64_t channel = id_of(d.targets, vector * W + (m < lanes ? m : 0)),
                      plane = image * d.c.in_channels + channel;
        from[m] = d.reached[channel] ? d.source + plane * d.padded.source() : d.zeros;
        to[m] = d.target + plane * d.height * d.width;
    }
    gather_cells(from, d.padded.source(), d.from, cells);
    float* const results = cells + d.padded.size() * W;
    for (int64_t p = 0; p < d.phases(); ++p) {
        const TargetPhase& phase = d.phase[p];
        tap_run(cells, d.off + phase.first, d.packed + (vector * d.kernel() + phase.first) * W, phase.taps,
                load(d.start + vector * W), phase.run, results + p * d.phase_floats());
    }
    scatter_cells(results, d.to, d.height * d.width, lanes, to);
}

static efl_status convolve_depthwise(Depthwise&& d) {
    const int64_t macs = d.c.batch * d.count() * d.height * d.width * d.kernel(), count = d.c.batch * d.vectors();
    d.blocks = blocks_of(count, macs);
    if (d.blocks == 0 || d.height * d.width == 0) return EFL_OK;
    if (!place([&](Carve& carve) { d.lay_out(carve); })) return EFL_NO_MEMORY;
    tabulate(d);
    const Parts shares = Parts::into(count, d.blocks);
    each_block(d.blocks, macs, threads_for(d.blocks), [&](int64_t i, int64_t thread) {
        for (int64_t g = shares.first(i); g < shares.first(i) + shares.size(i); ++g)
            convolve_vector(d, g / d.vectors(), g % d.vectors(), d.memory + thread * d.thread_floats());
    });
    return EFL_OK;
}

efl_status depthwise_forward(const efl_conv2d& c, const Geometry& g, const float* x, const float* weight,
                             const float* bias, float* y) {
    const Axis rows = forward_axis(c.height, g.out_h, c.kernel_h, c.stride_h, c.pad_h, c.dil_h),
               cols = forward_axis(c.width, g.out_w, c.kernel_w, c.stride_w, c.pad_w, c.dil_w);
    return convolve_depthwise(Depthwise{.c = c,
                                        .source = x,
                                        .weight = weight,
                                        .bias = bias,
                                        .target = y,
                                        .sources = everything,
                                        .targets = everything,
                                        .rows = &rows,
                                        .cols = &cols,
                                        .height = g.out_h,
                                        .width = g.out_w,
                                        .spread_h = 1,
                                        .spread_w = 1,
                                        .padded = {PaddedAxis(&rows, 1), PaddedAxis(&cols, 1)}});
}

efl_status depthwise_grad_input(const efl_conv2d& c, const Geometry& g, const float* dy, const float* weight,
                                efl_index outs, efl_index ins, float* dx) {
    Axis rows[MOST_STRIDE], cols[MOST_STRIDE];
    const int64_t spread_h = least(c.stride_h, c.height), spread_w = least(c.stride_w, c.width);
    for (int64_t a = 0; a < spread_h; ++a)
        rows[a] = transposed_axis(c.height, g.out_h, c.kernel_h, c.stride_h, c.pad_h, c.dil_h, a);
    for (int64_t b = 0; b < spread_w; ++b)
        cols[b] = transposed_axis(c.width, g.out_w, c.kernel_w, c.stride_w, c.pad_w, c.dil_w, b);
    if (spread_h * spread_w == 0) return EFL_OK;
    return convolve_depthwise(Depthwise{.c = c,
                                        .source = dy,
                                        .weight = weight,
                                        .bias = nullptr,
                                        .target = dx,
                                        .sources = outs,
                                        .targets = ins,
                                        .rows = rows,
                                        .cols = cols,
                                        .height = c.height,
                                        .width = c.width,
                                        .spread_h = spread_h,
                                        .spread_w = spread_w,
                                        .padded = {PaddedAxis(rows, spread_h), PaddedAxis(cols, spread_w)}});
}

// ---- weight gradient

constexpr int64_t SUMMED_POSITIONS = 1024;  // and so many of an image, or of several, are added in float32

// The memory of each thread: vectors of x and of dy, and sums for each tap.
struct DepthwiseWeight {
    const WeightGradient& w;
    PaddedPlane padded;
    int64_t outs = 0, blocks = 0;
    int64_t *off = nullptr, *x_at = nullptr, *dy_at = nullptr;  // bytes
    float* memory = nullptr;
    vf* sums = nullptr;
    double* totals = nullptr;

    int64_t vectors() const { return (outs + W - 1) / W; }
    int64_t run() const { return (w.geometry.out_h - 1) * padded.pitch() + w.geometry.out_w; }
    int64_t thread_floats() const { return (padded.size() + run()) * W; }
    int64_t x_channel(int64_t j) const { return w.x_channels == w.conv.in_channels ? id_of(w.outs, j) : j; }

    void lay_out(Carve& carve) {
        off = carve.take<int64_t>(w.taps());
        x_at = carve.take<int64_t>(padded.source());
        dy_at = carve.take<int64_t>(w.positions());
        memory = carve.take<float>(threads_for(blocks) * thread_floats());
        sums = carve.take<vf>(threads_for(blocks) * w.taps());
        totals = carve.take<double>(threads_for(blocks) * w.taps() * W);
    }
};

static void tabulate(DepthwiseWeight& d) {
    const WeightGradient& w = d.w;
    const Axis &rows = w.planes.rows, &cols = w.planes.cols;
    for (int64_t t = 0; t < w.taps(); ++t)
        d.off[t] = d.padded.at(rows.shift(t / cols.kernel), cols.shift(t % cols.kernel)) * VECTOR_BYTES;
    d.padded.tabulate_cells(d.x_at);
    for (int64_t i = 0; i < w.positions(); ++i)
        d.dy_at[i] = (i / w.geometry.out_w * d.padded.pitch() + i % w.geometry.out_w) * VECTOR_BYTES;
    zero_floats(d.memory, threads_for(d.blocks) * d.thread_floats());
}

// Adds an image's products to the sums of a vector of channels.
static void add_image(const DepthwiseWeight& d, int64_t image, int64_t vector, float* cells, vf* sums) {
    const WeightGradient& w = d.w;
    const float *x[W], *dy[W];
    for (int m = 0; m < W; ++m) {
        const int64_t j = vector * W + m < d.outs ? vector * W + m : vector * W;
        x[m] = w.x + (image * w.x_channels + d.x_channel(j)) * d.padded.source();
        dy[m] = w.dy_plane(image, j);
    }
    float* const grads = cells + d.padded.size() * W;
    gather_cells(x, d.padded.source(), d.x_at, cells);
    gather_cells(dy, w.positions(), d.dy_at, grads);
    if (w.taps() == 9 && step_of_threes(d.off, 9) == 1) return add_nine_products(cells, grads, d.run(), d.off, sums);
    const Parts parts(w.taps(), SUMMED_TAPS);
    for (int64_t p = 0; p < parts.count; ++p)
        ADD_TAPS[parts.size(p) - 1](cells, grads, d.run(), d.off + parts.first(p), sums + parts.first(p));
}

// Computes the gradients of a vector of channels.
static void depthwise_gradients(const DepthwiseWeight& d, int64_t vector, float* cells, vf* sums, double* totals) {
    const int64_t taps = d.w.taps(), batch = d.w.conv.batch, few = SUMMED_POSITIONS / d.w.positions() + 1;
    for (int64_t i = 0; i < taps * W; ++i) totals[i] = 0;
    for (int64_t image = 0; image < batch; image += few) {
        for (int64_t t = 0; t < taps; ++t) sums[t] = zero();
        for (int64_t k = image; k < least(batch, image + few); ++k) add_image(d, k, vector, cells, sums);
        for (int64_t t = 0; t < taps; ++t) {
            float lanes[W];
            store(lanes, sums[t]);
            for (int m = 0; m < W; ++m) totals[t * W + m] += double(lanes[m]);
        }
    }
    for (int64_t j = vector * W; j < least(d.outs, vector * W + W); ++j)
        for (int64_t t = 0; t < taps; ++t) d.w.dw[j * taps + t] = float(totals[t * W + j % W]);
}

static efl_status weight_of_depthwise(const WeightGradient& w) {
    DepthwiseWeight d{.w = w, .padded = {PaddedAxis(&w.planes.rows, 1), PaddedAxis(&w.planes.cols, 1)}};
    d.outs = count_of(w.outs, w.conv.out_channels);
    const int64_t macs = d.outs * w.conv.batch * w.positions() * w.taps();
    d.blocks = blocks_of(d.vectors(), macs);
    if (w.positions() == 0) {
        zero_floats(w.dw, d.outs * w.taps());
        return EFL_OK;
    }
    if (!place([&](Carve& carve) { d.lay_out(carve); })) return EFL_NO_MEMORY;
    tabulate(d);
    const Parts shares = Parts::into(d.vectors(), d.blocks);
    each_block(d.blocks, macs, threads_for(d.blocks), [&](int64_t i, int64_t thread) {
        for (int64_t g = shares.first(i); g < shares.first(i) + shares.size(i); ++g)
            depthwise_gradients(d, g, d.memory + thread * d.thread_floats(), d.sums + thread * w.taps(),
                                d.totals + thread * w.taps() * W);
    });
    return EFL_OK;
}
