// Input gradient of a convolution on a small map, window by window: a product of matrices whose rows are the taps of a
// few input channels. No phases of the stride, no lanes for padding.
//
// The positions of a few images lie side by side in a plane for each output channel. Where windows do not overlap, an
// input meets one tap of one window at most, and the results are written to the inputs of each window; where they do,
// each row of inputs is the sum of shifted rows of its taps' results. dy is copied once, not once for every phase.

constexpr int64_t WINDOW_POSITIONS = 8 * W;  // of a map at most: a few images' planes stay in L1 while panels pass by
constexpr int64_t PASS_WINDOWS = 10 * W;     // of a few images, which fill their vectors better than fewer would
constexpr int64_t WINDOW_FLOATS = 1 << 13;   // of these planes

// Positions along an axis whose windows meet an input: [first, first + count).
struct MetWindows {
    int64_t first, count;
    MetWindows(int64_t size, int64_t out, int64_t kernel, int64_t stride, int64_t pad)
        : first(pad < kernel ? 0 : (pad - kernel + stride) / stride),
          count(least(out, (size + pad + stride - 1) / stride) - first) {}
};

struct WindowPlan {
    const efl_conv2d& c;
    Geometry g;
    const float *dy, *weight;
    efl_index outs, ins;
    float* dx;
    MetWindows rows, cols;
    int64_t sources, targets, taps;
    bool overlap;
    Parts panels, blocks;  // targets, and images, at a time
    int64_t pitch;         // floats of an output channel's positions of a block
    int64_t *off, *row;
    Vector* vector;
    unsigned* lanes;  // [vector of a row of inputs][tap along it]: lanes that meet the tap, where windows overlap
    float *zeros, *packed, *planes, *results;

    WindowPlan(const efl_conv2d& c_, const Geometry& g_, const float* dy_, const float* weight_, efl_index outs_,
               efl_index ins_, float* dx_)
        : c(c_), g(g_), dy(dy_), weight(weight_), outs(outs_), ins(ins_), dx(dx_),
          rows(c.height, g.out_h, c.kernel_h, c.stride_h, c.pad_h),
          cols(c.width, g.out_w, c.kernel_w, c.stride_w, c.pad_w), sources(count_of(outs, c.out_channels)),
          targets(count_of(ins, c.in_channels)), taps(c.kernel_h * c.kernel_w),
          overlap(c.kernel_h > c.stride_h || c.kernel_w > c.stride_w),
          panels(targets, taps > MAX_ROWS ? 1 : MAX_ROWS / taps), blocks(c.batch, fitting()),
          pitch((blocks.size(0) * positions() + W - 1) / W * W) {}

    int64_t positions() const { return rows.count * cols.count; }
    int64_t fitting() const {
        const int64_t fit = WINDOW_FLOATS / (sources * positions() + 1), most = PASS_WINDOWS / positions();
        return fit < 1 ? 1 : least(fit, most);
    }
    int64_t planes_size() const { return sources * pitch + W; }
    int64_t most_rows() const { return panels.size(0) * taps; }
    int64_t margin() const {
        return W + c.kernel_w;
    }  // of results, by which vectors begin before the results or end after them
    int64_t results_size() const { return margin() + most_rows() * pitch + margin(); }
    Parts row_panels(int64_t p) const { return Parts(panels.size(p) * taps, MAX_ROWS); }

    void lay_out(Carve& carve, int64_t crew) {
        off = carve.take<int64_t>(sources);
        row = carve.take<int64_t>(most_rows());
        vector = carve.take<Vector>(pitch / W);
        lanes = carve.take<unsigned>(overlap ? (c.width + W - 1) / W * c.kernel_w : 0);
        zeros = carve.take<float>(MAX_ROWS);
        packed = carve.take<float>(sources * targets * taps);
        planes = carve.take<float>(crew * planes_size());
        results = carve.take<float>(crew * results_size());
    }
};

// How many positions' windows meet an input; none where there are too many, or no such product.
static int64_t positions_by_windows(const efl_conv2d& c, const Geometry& g, int64_t sources) {
    if (c.groups != 1 || c.dil_h != 1 || c.dil_w != 1 || sources == 0 || c.kernel_h * c.kernel_w == 1) return 0;
    const MetWindows rows(c.height, g.out_h, c.kernel_h, c.stride_h, c.pad_h),
        cols(c.width, g.out_w, c.kernel_w, c.stride_w, c.pad_w);
    const int64_t count = rows.count > 0 && cols.count > 0 ? rows.count * cols.count : 0;
    return count <= WINDOW_POSITIONS ? count : 0;
}

// Windows that do not overlap, and whose taps fit in a panel.
static bool prefers_windows(const efl_conv2d& c, const Geometry& g, int64_t sources) {
    return c.kernel_h <= c.stride_h && c.kernel_w <= c.stride_w && c.kernel_h * c.kernel_w <= MAX_ROWS &&
           positions_by_windows(c, g, sources) > 0;
}

constexpr int64_t MIN_WINDOW_SOURCES = 24;  // whose products pay for reading each tap's results once more
constexpr int64_t MAX_WINDOW_TAPS = 49;     // whose results stay in L2

// Windows that overlap, and positions that are half as many as the lanes of the inputs' rows, or fewer.
static bool prefers_added_windows(const efl_conv2d& c, const Geometry& g, int64_t sources) {
    const int64_t count = positions_by_windows(c, g, sources), lanes = c.height * ((c.width + W - 1) / W * W);
    return count > 0 && sources >= MIN_WINDOW_SOURCES && c.kernel_h * c.kernel_w <= MAX_WINDOW_TAPS &&
           c.stride_h == 1 && c.stride_w == 1 && 2 * count <= lanes;
}

// Whether every input is in a window.
static bool covers(int64_t size, int64_t out, int64_t kernel, int64_t stride, int64_t pad) {
    return kernel == stride && out * stride >= size + pad;
}

// A few rows of a panel, the taps from `first` on of one target, or all of several: [source][row].
static void pack_windows(const WindowPlan& w, int64_t p, int64_t first, int64_t rows, float* to) {
    const int64_t targets = w.panels.size(p), taps = rows / targets;
    for (int64_t s = 0; s < w.sources; ++s)
        for (int64_t m = 0; m < targets; ++m, to += taps) {
            const int64_t at = id_of(w.outs, s) * w.c.in_channels + id_of(w.ins, w.panels.first(p) + m);
            copy_floats(to, w.weight + at * w.taps + first, taps);
        }
}

static void pack_windows(const WindowPlan& w) {
    for (int64_t p = 0; p < w.panels.count; ++p) {
        const Parts rows = w.row_panels(p);
        for (int64_t i = 0; i < rows.count; ++i)
            pack_windows(w, p, rows.first(i), rows.size(i),
                         w.packed + (w.panels.first(p) * w.taps + rows.first(i)) * w.sources);
    }
}

static void tabulate_lanes(const WindowPlan& w) {
    for (int64_t q = 0, i = 0; q < w.c.width; q += W)
        for (int64_t k = 0; k < w.c.kernel_w; ++k, ++i) {
            const Inside met(w.cols.count, W, 1, q + w.c.pad_w - k - w.cols.first);
            w.lanes[i] = 0;
            for (int64_t l = met.first; l < met.end; ++l) w.lanes[i] |= 1u << l;
        }
}

// The block's positions: [source][image][row][column].
static void fill_windows(const WindowPlan& w, int64_t first, int64_t count, float* planes) {
    const int64_t plane = w.g.out_h * w.g.out_w;
    const float* dy = w.dy + w.rows.first * w.g.out_w + w.cols.first;
    for (int64_t s = 0; s < w.sources; ++s)
        for (int64_t n = 0; n < count; ++n)
            copy_rows(planes + s * w.pitch + n * w.positions(), w.cols.count,
                      dy + ((first + n) * w.c.out_channels + id_of(w.outs, s)) * plane, w.g.out_w, w.rows.count,
                      w.cols.count);
}

// The results of the taps of a kernel's row, a plane of `step` floats each, to the inputs of a row from the first on.
static void write_taps(const WindowPlan& w, const float* from, int64_t step, float* to) {
    const efl_conv2d& c = w.c;
    const int64_t first = w.cols.first * c.stride_w - c.pad_w;  // or before it
    for (int64_t t = 0; t < c.kernel_w; ++t, from += step)
        for (int64_t q = 0; q < w.cols.count; ++q) {
            const int64_t at = first + q * c.stride_w + t;
            if (at >= 0 && at < c.width) to[at] = from[q];
        }
}

// Where the rows of two taps at a stride of 2 go: inputs [start, start + count) of a row.
struct ZippedRow {
    int64_t skipped, start, count;

    explicit ZippedRow(const WindowPlan& w)
        : skipped(w.cols.first * 2 < w.c.pad_w ? 1 : 0), start(w.cols.first * 2 - w.c.pad_w + skipped),
          count(least(w.c.width - start, 2 * w.cols.count - skipped)) {}
    void write(const float* from, int64_t step, float* to) const {
        const float *even = skipped ? from + step : from, *odd = skipped ? from + 1 : from + step;
        if (count <= W) return store_n(to + start, zip_low(load(even), load(odd)), int(count));
        for (int64_t q = 0; q < count; q += 2 * W)
            store_zipped(to + start + q, load(even + q / 2), load(odd + q / 2), least(2 * W, count - q));
    }
};

// The results of one target and image: [tap][position], the taps `pitch` floats apart. write(from, step, to) a row of
// them.
template <class Write>
static inline void write_windows(const WindowPlan& w, const float* from, float* to, const Write& write) {
    const efl_conv2d& c = w.c;
    const int64_t top = w.rows.first * c.stride_h - c.pad_h;
    for (int64_t t = 0; t < c.kernel_h; ++t) {
        const Inside met(c.height, w.rows.count, c.stride_h, top + t);
        const float* row = from + t * c.kernel_w * w.pitch + met.first * w.cols.count;
        float* inputs = to + (top + t + met.first * c.stride_h) * c.width;
        for (int64_t r = met.first; r < met.end; ++r, row += w.cols.count, inputs += c.stride_h * c.width)
            write(row, w.pitch, inputs);
    }
}

static void write_windows(const WindowPlan& w, const float* from, float* to) {
    if (w.c.stride_w == 2 && w.c.kernel_w == 2)
        write_windows(w, from, to, [zipped = ZippedRow(w)](const float* taps, int64_t step, float* inputs) {
            zipped.write(taps, step, inputs);
        });
    else
        write_windows(w, from, to,
                      [&](const float* taps, int64_t step, float* inputs) { write_taps(w, taps, step, inputs); });
}

// Row h of one target's inputs in an image: the sums of what the windows that meet them give, [tap][position].
static void add_windows(const WindowPlan& w, int64_t h, const float* from, float* to) {
    const efl_conv2d& c = w.c;
    const unsigned* lanes = w.lanes;
    for (int64_t q = 0; q < c.width; q += W) {
        vf sum = zero();
        for (int64_t t = 0; t < c.kernel_h; ++t) {
            const int64_t r = h + c.pad_h - t - w.rows.first;
            if (r < 0 || r >= w.rows.count) continue;
            const float* at = from + t * c.kernel_w * w.pitch + r * w.cols.count + q - w.cols.first + c.pad_w;
            for (int64_t k = 0; k < c.kernel_w; ++k) sum = add(sum, keep_bits(load(at + k * (w.pitch - 1)), lanes[k]));
        }
        store_n(to + q, sum, int(least(W, c.width - q)));
        lanes += c.kernel_w;
    }
}

// One panel of targets and a block of images.
static void multiply_windows(const WindowPlan& w, int64_t p, int64_t images, const float* planes, float* results) {
    const Parts passes(w.sources, MAX_TERMS), rows = w.row_panels(p);
    for (int64_t i = 0; i < rows.count; ++i)
        for (int64_t k = 0; k < passes.count; ++k) {
            const int64_t s = passes.first(k);
            const Product product{
                .a = w.packed + (w.panels.first(p) * w.taps + rows.first(i)) * w.sources + s * rows.size(i),
                .b = planes,
                .off = w.off + s,
                .terms = passes.size(k),
                .start = k ? nullptr : w.zeros,
                .c = results,
                .row = w.row + rows.first(i),
                .vectors = w.vector,
            };
            outer_product(product, rows.size(i), (images * w.positions() + W - 1) / W);
        }
}

static void windows_of_images(const WindowPlan& w, int64_t first, int64_t count, float* planes, float* results) {
    const int64_t plane = w.c.height * w.c.width, step = w.c.in_channels * plane;
    fill_windows(w, first, count, planes);
    for (int64_t p = 0; p < w.panels.count; ++p) {
        multiply_windows(w, p, count, planes, results);
        for (int64_t m = 0; m < w.panels.size(p); ++m) {
            const float* from = results + m * w.taps * w.pitch;
            float* to = w.dx + first * step + id_of(w.ins, w.panels.first(p) + m) * plane;
            for (int64_t n = 0; n < count; ++n, from += w.positions(), to += step) {
                if (!w.overlap) write_windows(w, from, to);
                for (int64_t h = 0; h < (w.overlap ? w.c.height : 0); ++h) add_windows(w, h, from, to + h * w.c.width);
            }
        }
    }
}

static efl_status input_by_windows(const WindowPlan& plan) {
    WindowPlan w(plan);
    if (w.targets == 0 || w.c.batch == 0) return EFL_OK;
    const int64_t macs = w.sources * w.targets * w.taps * w.positions() * w.c.batch,
                  crew = threads_for(macs < THREAD_MACS ? 1 : w.blocks.count);
    if (!place([&](Carve& carve) { w.lay_out(carve, crew); })) return EFL_NO_MEMORY;
    for (int64_t s = 0; s < w.sources; ++s) w.off[s] = s * w.pitch * OFF_UNIT;
    for (int64_t m = 0; m < w.most_rows(); ++m) w.row[m] = m * w.pitch;
    for (int64_t v = 0; v < w.pitch / W; ++v) w.vector[v] = Vector{v * W, v * W, W};
    zero_floats(w.zeros, MAX_ROWS);
    zero_floats(w.planes, crew * w.planes_size());
    pack_windows(w);
    if (w.overlap) tabulate_lanes(w);
    each_block(w.blocks.count, macs, crew, [&](int64_t b, int64_t thread) {
        windows_of_images(w, w.blocks.first(b), w.blocks.size(b), w.planes + thread * w.planes_size(),
                          w.results + thread * w.results_size() + w.margin());
    });
    return EFL_OK;
}
