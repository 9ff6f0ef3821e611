// Input gradient of a convolution on a small map whose windows do not overlap: a product of matrices, as every input
// meets one tap of one window at most. No phases of the stride, no sums of shifted planes.
//
// The positions of a few images lie side by side in a plane for each output channel; the product's rows are the taps
// of a few input channels, and its results are written to the inputs of each window. dy is copied once, not once for
// every phase.

constexpr int64_t WINDOW_POSITIONS = 8 * W;  // of a map at most: a few images' planes stay in L1 while panels pass by
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
    Parts panels, blocks;  // targets, and images, at a time
    int64_t pitch;         // floats of an output channel's positions of a block
    int64_t *off, *row;
    Word* word;
    float *zeros, *packed, *planes, *results;

    WindowPlan(const efl_conv2d& c_, const Geometry& g_, const float* dy_, const float* weight_, efl_index outs_,
               efl_index ins_, float* dx_)
        : c(c_), g(g_), dy(dy_), weight(weight_), outs(outs_), ins(ins_), dx(dx_),
          rows(c.height, g.out_h, c.kernel_h, c.stride_h, c.pad_h),
          cols(c.width, g.out_w, c.kernel_w, c.stride_w, c.pad_w), sources(count_of(outs, c.out_channels)),
          targets(count_of(ins, c.in_channels)), taps(c.kernel_h * c.kernel_w), panels(targets, MAX_ROWS / taps),
          blocks(c.batch, fitting()), pitch((blocks.size(0) * positions() + W - 1) / W * W) {}

    int64_t positions() const { return rows.count * cols.count; }
    int64_t fitting() const {
        const int64_t fit = WINDOW_FLOATS / (sources * positions() + 1), most = WINDOW_POSITIONS / positions();
        return fit < 1 ? 1 : least(fit, most);
    }
    int64_t planes_size() const { return sources * pitch + W; }
    int64_t results_size() const { return MAX_ROWS * pitch + W; }

    void lay_out(Carve& carve, int64_t crew) {
        off = carve.take<int64_t>(sources);
        row = carve.take<int64_t>(MAX_ROWS);
        word = carve.take<Word>(pitch / W);
        zeros = carve.take<float>(MAX_ROWS);
        packed = carve.take<float>(sources * targets * taps);
        planes = carve.take<float>(crew * planes_size());
        results = carve.take<float>(crew * results_size());
    }
};

// Windows that do not overlap, and whose taps fit in a panel.
static bool prefers_windows(const efl_conv2d& c, const Geometry& g, int64_t sources) {
    const int64_t taps = c.kernel_h * c.kernel_w;
    if (c.groups != 1 || c.dil_h != 1 || c.dil_w != 1 || sources == 0 || taps == 1 || taps > MAX_ROWS) return false;
    if (c.kernel_h > c.stride_h || c.kernel_w > c.stride_w) return false;
    const MetWindows rows(c.height, g.out_h, c.kernel_h, c.stride_h, c.pad_h),
        cols(c.width, g.out_w, c.kernel_w, c.stride_w, c.pad_w);
    return rows.count > 0 && cols.count > 0 && rows.count * cols.count <= WINDOW_POSITIONS;
}

// Whether every input is in a window.
static bool covers(int64_t size, int64_t out, int64_t kernel, int64_t stride, int64_t pad) {
    return kernel == stride && out * stride >= size + pad;
}

// [panel][source][target of the panel][tap]
static void pack_windows(const WindowPlan& w) {
    float* to = w.packed;
    for (int64_t p = 0; p < w.panels.count; ++p)
        for (int64_t s = 0; s < w.sources; ++s)
            for (int64_t m = w.panels.first(p); m < w.panels.first(p) + w.panels.size(p); ++m) {
                const float* from = w.weight + (id_of(w.outs, s) * w.c.in_channels + id_of(w.ins, m)) * w.taps;
                for (int64_t t = 0; t < w.taps; ++t) *to++ = from[t];
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
    if (c.stride_w == 2 && c.kernel_w == 2) {
        const int64_t skipped = first < 0 ? 1 : 0, start = first + skipped,
                      count = least(c.width - start, 2 * w.cols.count - skipped);
        const float *even = skipped ? from + step : from, *odd = skipped ? from + 1 : from + step;
        for (int64_t q = 0; q < count; q += 2 * W)
            store_zipped(to + start + q, load(even + q / 2), load(odd + q / 2), least(2 * W, count - q));
        return;
    }
    for (int64_t t = 0; t < c.kernel_w; ++t, from += step)
        for (int64_t q = 0; q < w.cols.count; ++q) {
            const int64_t at = first + q * c.stride_w + t;
            if (at >= 0 && at < c.width) to[at] = from[q];
        }
}

// The results of one target and image: [tap][position], the taps `pitch` floats apart.
static void write_windows(const WindowPlan& w, const float* from, float* to) {
    const efl_conv2d& c = w.c;
    for (int64_t r = 0; r < w.rows.count; ++r, from += w.cols.count)
        for (int64_t t = 0; t < c.kernel_h; ++t) {
            const int64_t h = (w.rows.first + r) * c.stride_h - c.pad_h + t;
            if (h < 0 || h >= c.height) continue;
            write_taps(w, from + t * c.kernel_w * w.pitch, w.pitch, to + h * c.width);
        }
}

// One panel of targets and a block of images.
static void multiply_windows(const WindowPlan& w, int64_t p, int64_t images, const float* planes, float* results) {
    const Parts passes(w.sources, MAX_TERMS);
    const int64_t rows = w.panels.size(p) * w.taps;
    for (int64_t k = 0; k < passes.count; ++k) {
        const int64_t s = passes.first(k);
        const Product product{
            .a = w.packed + w.panels.first(p) * w.taps * w.sources + s * rows,
            .b = planes,
            .off = w.off + s,
            .terms = passes.size(k),
            .start = k ? nullptr : w.zeros,
            .c = results,
            .row = w.row,
            .words = w.word,
        };
        outer_product(product, rows, (images * w.positions() + W - 1) / W);
    }
}

static void windows_of_images(const WindowPlan& w, int64_t first, int64_t count, float* planes, float* results) {
    const int64_t plane = w.c.height * w.c.width;
    fill_windows(w, first, count, planes);
    for (int64_t p = 0; p < w.panels.count; ++p) {
        multiply_windows(w, p, count, planes, results);
        for (int64_t m = 0; m < w.panels.size(p); ++m)
            for (int64_t n = 0; n < count; ++n)
                write_windows(w, results + m * w.taps * w.pitch + n * w.positions(),
                              w.dx + ((first + n) * w.c.in_channels + id_of(w.ins, w.panels.first(p) + m)) * plane);
    }
}

static efl_status input_by_windows(const WindowPlan& plan) {
    WindowPlan w(plan);
    if (w.targets == 0 || w.c.batch == 0) return EFL_OK;
    const int64_t macs = w.sources * w.targets * w.taps * w.positions() * w.c.batch,
                  crew = threads_for(macs < THREAD_MACS ? 1 : w.blocks.count);
    if (!place([&](Carve& carve) { w.lay_out(carve, crew); })) return EFL_NO_MEMORY;
    for (int64_t s = 0; s < w.sources; ++s) w.off[s] = s * w.pitch;
    for (int64_t m = 0; m < MAX_ROWS; ++m) w.row[m] = m * w.pitch;
    for (int64_t v = 0; v < w.pitch / W; ++v) w.word[v] = Word{v * W, v * W, W};
    zero_floats(w.zeros, MAX_ROWS);
    zero_floats(w.planes, crew * w.planes_size());
    pack_windows(w);
    each_block(w.blocks.count, macs, crew, [&](int64_t b, int64_t thread) {
        windows_of_images(w, w.blocks.first(b), w.blocks.size(b), w.planes + thread * w.planes_size(),
                          w.results + thread * w.results_size());
    });
    return EFL_OK;
}
