// The padded planes that turn every tap into a shifted pointer.

// Planes of one image: [channel][column phase][row][pitch]. With step 1 there is one phase; otherwise the columns are
// divided by their remainder, so that neighbouring positions are neighbours in memory.
struct Planes {
    Axis rows, cols;
    int64_t phases, height, pitch;

    Planes(const Axis& rows_, const Axis& cols_)
        : rows(rows_), cols(cols_), phases(least(cols.step, cols.last - cols.origin + 1)), height(rows.extent()),
          pitch(cols.count + (cols.last - cols.origin) / cols.step) {}

    int64_t size() const { return phases * height * pitch; }
    int64_t at(int64_t row_shift, int64_t col_shift) const {
        const int64_t col = col_shift - cols.origin;
        return (col % cols.step * height + row_shift - rows.origin) * pitch + col / cols.step;
    }

    // `room` for as many blocks as there are phases.
    CellCopies copies(CellBlock* room) const {
        const Inside row(rows.source, height, 1, rows.origin);
        for (int64_t phase = 0; phase < phases; ++phase) {
            const int64_t along = cols.origin + phase;
            room[phase] = CellBlock(pitch, row, Inside(cols.source, pitch, cols.step, along), 1, cols.step, rows.origin,
                                    along, cols.source);
            room[phase].to += phase * height * pitch;
        }
        return CellCopies{
            .count = phases, .to_pitch = pitch, .from_pitch = cols.source, .step = cols.step, .blocks = room};
    }
};

// A channel as its taps meet it: planes as wide as the result, so that the positions of all rows are one run of lanes.
// There is a plane for every tap along a row; taps down a column share it, a row apart, unless the stride skips rows.
struct TapPlanes {
    Axis rows, cols;
    int64_t down, height;  // planes down a column
    int64_t abreast = 1;   // images whose planes follow one another, as long as these are no higher than the result

    explicit TapPlanes(const Planes& planes)
        : rows(planes.rows), cols(planes.cols), down(rows.step == 1 ? 1 : rows.taps),
          height(rows.step == 1 ? rows.extent() : rows.count) {}

    int64_t count() const { return down * cols.taps; }
    int64_t plane() const { return height * cols.count * abreast; }
    int64_t size() const { return count() * plane(); }
    int64_t at(int64_t kh, int64_t kw) const {
        if (rows.step == 1) return cols.reached(kw) * plane() + (rows.shift(kh) - rows.origin) * cols.count;
        return (rows.reached(kh) * cols.taps + cols.reached(kw)) * plane();
    }

    // `room` for count() blocks.
    CellCopies copies(CellBlock* room) const {
        CellBlock* block = room;
        for (int64_t kh = 0; kh < (rows.step == 1 ? 1 : rows.kernel); ++kh)
            for (int64_t kw = 0; kw < cols.kernel; ++kw) {
                if ((rows.step > 1 && !rows.reaches(kh)) || !cols.reaches(kw)) continue;
                const int64_t top = rows.step == 1 ? rows.origin : rows.shift(kh), along = cols.shift(kw);
                *block = CellBlock(cols.count, Inside(rows.source, height, rows.step, top),
                                   Inside(cols.source, cols.count, cols.step, along), rows.step, cols.step, top, along,
                                   cols.source);
                block->to += (block - room) * plane();
                ++block;
            }
        return CellCopies{
            .count = count(),
            .to_pitch = cols.count,
            .from_pitch = rows.step * cols.source,
            .step = cols.step,
            .blocks = room,
        };
    }
};

static Planes forward_planes(const efl_conv2d& c, const Geometry& g) {
    return Planes(forward_axis(c.height, g.out_h, c.kernel_h, c.stride_h, c.pad_h, c.dil_h),
                  forward_axis(c.width, g.out_w, c.kernel_w, c.stride_w, c.pad_w, c.dil_w));
}

// Those of dy that the inputs (h, w), (h, w + stride_w), ... meet.
static Planes transposed_planes(const efl_conv2d& c, const Geometry& g, int64_t h, int64_t w) {
    return Planes(transposed_axis(c.height, g.out_h, c.kernel_h, c.stride_h, c.pad_h, c.dil_h, h),
                  transposed_axis(c.width, g.out_w, c.kernel_w, c.stride_w, c.pad_w, c.dil_w, w));
}
