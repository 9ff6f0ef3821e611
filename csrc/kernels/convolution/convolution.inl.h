// Convolution: forward and input gradient, and which way each takes. Choices are by shape, and of the input gradient by
// the zeros of dy, so that the result does not depend on the machine's load or on the number of threads.

static bool has_plain_taps(const Correlation& c) {
    const auto plain = [](const Axis& axis) {
        return axis.taps == 3 && axis.kernel == 3 && axis.last - axis.origin == 2 && axis.step == 1;
    };
    return c.groups == 1 && plain(c.planes.rows) && plain(c.planes.cols) && c.target_col == 1;
}

// Maps of side x side cells, and images for enough lanes: where Winograd's way has 36 or 64 products, these are 16
// or 49.
static bool prefers_whole(const Correlation& c, int64_t side) {
    const auto small = [=](const Axis& axis) { return axis.source == side && axis.count == side && axis.origin == -1; };
    const int64_t lanes = (c.batch + W - 1) / W * W;
    return has_plain_taps(c) && small(c.planes.rows) && small(c.planes.cols) && 4 * c.batch >= side * lanes &&
           count_of(c.sources, c.source_channels) > 0;
}

static bool prefers_whole(const Correlation& c) { return prefers_whole(c, 2) || prefers_whole(c, 3); }

// Channels that pay for the transforms, which longer vectors do not make as much faster as plain sums.
constexpr int64_t TILE_BALANCE = W < 16 ? 7 : 12;

// 3x3 taps at stride 1, and enough of the rest (measured on Zen 3: 20 to 8 channels even, 20 to 12 at .9 of the time,
// 20 to 20 at .8, 64 to 64 at .6; with AVX-512 20 to 20 channels are 1.1 of the time of plain sums).
static bool prefers_tiles(const Correlation& c) {
    return has_plain_taps(c) &&
           pays_for_points(count_of(c.sources, c.source_channels), count_of(c.targets, c.target_channels), TILE_BALANCE,
                           c.batch, c.planes.rows.count, c.planes.cols.count);
}

// Tiles of 4x4 positions, where images fill vectors, rows of tiles fit in a chunk, and four vectors of tiles pay for
// the transform of the weights (512 channels at 4x4 cells, AVX-512: one vector 1.15). Sums of fewer taps than those at
// the edge of a map with a padding of one cell would round too much for their terms.
static inline bool prefers_fours(const Correlation& c) {
    const int64_t rows = c.planes.rows.count, cols = c.planes.cols.count, across = (cols + 3) / 4,
                  sources = count_of(c.sources, c.source_channels);
    return pays_for_fours(sources, count_of(c.targets, c.target_channels), rows, cols) && fills_vectors(c.batch) &&
           across * W <= CHUNK_FOURS && (c.batch + W - 1) / W * across * ((rows + 3) / 4) >= 4 &&
           sources <= MOST_SOURCES_OF_FOURS && c.planes.rows.origin >= -1 && c.planes.cols.origin >= -1;
}

// 3x3 taps at stride 2, and channels that pay for the transforms (measured with AVX-512: 16 to 16 channels 1.3 of the
// time forward, 1.07 transposed, 32 to 64 .9 and .7).
template <class Way>
static bool prefers_strided(const efl_conv2d& c, const Geometry& g, int64_t sources, int64_t targets) {
    const bool plain = c.groups == 1 && c.kernel_h == 3 && c.kernel_w == 3 && c.stride_h == 2 && c.stride_w == 2 &&
                       c.dil_h == 1 && c.dil_w == 1;
    return plain && c.batch > 0 && g.out_h > 1 && g.out_w > 1 && sources > 0 &&
           sources * targets >= Way::balance * (sources + targets);
}

constexpr int64_t MIN_GATHER_TARGETS = 64;  // below this the gather costs more than the lanes it saves

// Lanes of a row's vectors that carry nothing are over two fifths, and there is work enough to pay for the gather. Of a
// single tap, rows follow one another as they are.
static bool gathers_positions(const Correlation& c) {
    const int64_t cols = c.planes.cols.count, lanes = (cols + W - 1) / W * W;
    return c.groups == 1 && c.taps() > 1 && 5 * cols <= 3 * lanes &&
           count_of(c.targets, c.target_channels) >= MIN_GATHER_TARGETS;
}

// Whether vectors along rows are what is left.
static bool goes_by_rows(const Correlation& c) {
    return !prefers_whole(c) && !prefers_tiles(c) && !prefers_fives(c) && !gathers_positions(c);
}

// One of the seven ways, by shape alone.
static efl_status correlate(const Correlation& c) {
    if (c.batch == 0 || c.positions() == 0 || count_of(c.targets, c.target_channels) == 0) return EFL_OK;
    if (prefers_points(c)) return correlate_points(c);
    if (prefers_whole(c, 2)) return correlate_whole<2>(c);
    if (prefers_whole(c, 3)) return correlate_whole<3>(c);
    if constexpr (W > 4)
        if (prefers_tiles(c) && prefers_fours(c)) return correlate_tiles<4>(c);
    if (prefers_tiles(c)) return correlate_tiles<2>(c);
    if (prefers_fives(c)) return correlate_fives(c);
    return gathers_positions(c) ? correlate_small(c) : correlate_rows(c);
}

static Correlation forward_correlation(const efl_conv2d& c, const Geometry& g, const float* x, const float* weight,
                                       const float* bias, float* y) {
    return Correlation{
        .planes = forward_planes(c, g),
        .batch = c.batch,
        .groups = c.groups,
        .source = x,
        .source_channels = c.in_channels,
        .sources = everything,
        .weight = weight,
        .transposed = false,
        .weight_inner = g.in_group,
        .bias = bias,
        .target = y,
        .target_channels = c.out_channels,
        .targets = everything,
        .target_plane = g.out_h * g.out_w,
        .target_row = g.out_w,
        .target_col = 1,
    };
}

static efl_status conv2d_forward_f32(const efl_conv2d* conv, const float* x, const float* weight, const float* bias,
                                     float* y) {
    const efl_conv2d& c = *conv;
    const Geometry g(c);
    if (prefers_depthwise(c, MOST_CELLS)) return depthwise_forward(c, g, x, weight, bias, y);
    const Correlation correlation = forward_correlation(c, g, x, weight, bias, y);
    if (prefers_strided<StridedForward>(c, g, c.in_channels, c.out_channels))
        return correlate_strided<StridedForward>(correlation, {c.height, g.out_h, -c.pad_h},
                                                 {c.width, g.out_w, -c.pad_w});
    return correlate(correlation);
}

static void clear_channels(const efl_conv2d& c, efl_index ins, float* dx) {
    const int64_t count = count_of(ins, c.in_channels), plane = c.height * c.width;
    split(c.batch * count, plane, [=](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i)
            zero_floats(dx + (i / count * c.in_channels + id_of(ins, i % count)) * plane, plane);
    });
}

// The correlation of dy that gives the inputs (h, w), (h, w + stride_w), ...: the pixels of a phase meet the same taps.
static Correlation input_phase(const efl_conv2d& c, const Geometry& g, const float* dy, const float* weight,
                               efl_index outs, efl_index ins, float* dx, int64_t h, int64_t w) {
    return Correlation{
        .planes = transposed_planes(c, g, h, w),
        .batch = c.batch,
        .groups = c.groups,
        .source = dy,
        .source_channels = c.out_channels,
        .sources = outs,
        .weight = weight,
        .transposed = true,
        .weight_inner = g.in_group,
        .bias = nullptr,
        .target = dx + h * c.width + w,
        .target_channels = c.in_channels,
        .targets = ins,
        .target_plane = c.height * c.width,
        .target_row = c.stride_h * c.width,
        .target_col = c.stride_w,
    };
}

// A kernel of 1x1 that meets every second column: the other inputs' gradients are 0, and written with the rest.
static bool meets_every_other(const efl_conv2d& c) {
    return c.kernel_h == 1 && c.kernel_w == 1 && c.stride_w == 2 && c.pad_h == 0 && c.pad_w == 0;
}

// All phases of the stride at once, or window by window, or one phase after the other.
static efl_status conv2d_grad_input_f32(const efl_conv2d* conv, const float* dy, const float* weight, efl_index outs,
                                        efl_index ins, float* dx) {
    const efl_conv2d& c = *conv;
    const Geometry g(c);
    if (prefers_depthwise(c, c.stride_h * c.stride_w > 1 ? MOST_STRIDED_CELLS : MOST_CELLS))
        return depthwise_grad_input(c, g, dy, weight, outs, ins, dx);
    if (c.stride_h == 1 && c.stride_w == 1 && c.batch > 0 && fills_runs(c, count_of(ins, c.in_channels), 2) &&
        input_by_nonzeros(NonzeroPlan(c, g, dy, weight, outs, ins, dx)))
        return EFL_OK;
    if (c.pad_h % 2 && c.pad_w % 2 &&
        prefers_strided<StridedTransposed>(c, g, count_of(outs, c.out_channels), count_of(ins, c.in_channels)))
        return correlate_strided<StridedTransposed>(input_phase(c, g, dy, weight, outs, ins, dx, 0, 0),
                                                    {g.out_h, c.height, c.pad_h / 2}, {g.out_w, c.width, c.pad_w / 2});
    if (meets_every_other(c)) {
        Correlation alone = input_phase(c, g, dy, weight, outs, ins, dx, 0, 0);
        alone.cleared_width = c.width;
        return correlate(alone);
    }
    if (prefers_windows(c, g, count_of(outs, c.out_channels))) {
        if (!covers(c.height, g.out_h, c.kernel_h, c.stride_h, c.pad_h) ||
            !covers(c.width, g.out_w, c.kernel_w, c.stride_w, c.pad_w))
            clear_channels(c, ins, dx);
        return input_by_windows(WindowPlan(c, g, dy, weight, outs, ins, dx));
    }
    if (prefers_added_windows(c, g, count_of(outs, c.out_channels)) &&
        goes_by_rows(input_phase(c, g, dy, weight, outs, ins, dx, 0, 0)))
        return input_by_windows(WindowPlan(c, g, dy, weight, outs, ins, dx));
    if (misses_inputs(c.height, g.out_h, c.kernel_h, c.stride_h, c.pad_h, c.dil_h) ||
        misses_inputs(c.width, g.out_w, c.kernel_w, c.stride_w, c.pad_w, c.dil_w))
        clear_channels(c, ins, dx);
    for (int64_t h = 0; h < least(c.stride_h, c.height); ++h)
        for (int64_t w = 0; w < least(c.stride_w, c.width); ++w) {
            const Correlation phase = input_phase(c, g, dy, weight, outs, ins, dx, h, w);
            if (phase.taps() == 0) continue;
            if (const efl_status status = correlate(phase)) return status;
        }
    return EFL_OK;
}
