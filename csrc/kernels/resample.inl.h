// Planes sampled anew: bilinear interpolation, cells around a plane that continue it, columns in reverse. Along each
// axis a cell of the result is a sum of a few cells by their weights, and a gradient is the same with the axes turned.

// Which cell an axis gives, and which other one with what share: cell + share (other - cell).
struct Sampled {
    int64_t cell, other;
    float share;
};

struct ResampledAxis {
    int64_t size, result, before;
    int mode;

    Sampled at(int64_t i) const {
        if (mode < 2) {  // exact: a place is a fraction
            const int64_t parts = mode == 0 ? 2 * result : result > 1 ? result - 1 : 1;
            const int64_t place = mode == 0 ? (2 * i + 1) * size - result : result > 1 ? i * (size - 1) : 0;
            const int64_t cell = least(place > 0 ? place / parts : 0, size - 1);
            const double share = place > 0 ? double(place - cell * parts) / double(parts) : 0.0;
            return {cell, least(cell + 1, size - 1), float(share)};
        }
        const int64_t cell = of_room(i - before);
        return {cell, cell, 0.0f};
    }

private:
    int64_t of_room(int64_t i) const {
        if (mode == 5) return size - 1 - i;
        if (i >= 0 && i < size) return i;
        if (mode == 2) return i < 0 ? -i : 2 * (size - 1) - i;
        if (mode == 3) return i < 0 ? 0 : size - 1;
        return i < 0 ? i + size : i - size;
    }
};

// A sum for each of `count` results: of the cells cells[k] by weights[k], k from starts[i] to starts[i + 1]. The
// results [plain_first, plain_last) are single cells of weight 1, side by side.
struct Sums {
    int64_t count, plain_first, plain_last;
    int64_t *starts, *cells;
    float* weights;
    int64_t each;      // cells of every sum, or 0 where sums differ
    bool is_moved;     // single cells of weight 1
    bool is_reversed;  // all of them, from the last one to the first

    void take(Carve& carve, const ResampledAxis& axis, bool is_turned) {
        count = is_turned ? axis.size : axis.result;
        starts = carve.take<int64_t>(count + 2);
        cells = carve.take<int64_t>(2 * axis.result);
        weights = carve.take<float>(2 * axis.result);
    }

    void fill(const ResampledAxis& axis) {
        const bool has_pairs = axis.mode < 2;
        int64_t k = 0;
        for (int64_t i = 0; i < count; ++i) {
            const Sampled s = axis.at(i);
            starts[i] = k;
            cells[k] = s.cell, weights[k++] = 1.0f - s.share;
            if (has_pairs) cells[k] = s.other, weights[k++] = s.share;
        }
        starts[count] = k;
        find_kind();
    }

    // The sums of the other way: each cell's over the results that it is part of.
    void fill_turned(const ResampledAxis& axis) {
        for (int64_t c = 0; c <= count + 1; ++c) starts[c] = 0;
        each_part(axis, [&](int64_t cell, int64_t, float) { ++starts[cell + 2]; });
        for (int64_t c = 2; c <= count + 1; ++c) starts[c] += starts[c - 1];
        each_part(axis, [&](int64_t cell, int64_t i, float weight) {
            const int64_t k = starts[cell + 1]++;
            cells[k] = i, weights[k] = weight;
        });
        find_kind();
    }

private:
    template <class Visit>
    static void each_part(const ResampledAxis& axis, const Visit& visit) {
        for (int64_t i = 0; i < axis.result; ++i) {
            const Sampled s = axis.at(i);
            visit(s.cell, i, s.cell == s.other ? 1.0f : 1.0f - s.share);
            if (s.cell != s.other && s.share != 0.0f) visit(s.other, i, s.share);
        }
    }

    bool is_single(int64_t i) const { return starts[i + 1] - starts[i] == 1 && weights[starts[i]] == 1.0f; }

    void find_kind() {
        each = count ? starts[1] : 0, is_moved = true, is_reversed = count > 1;
        for (int64_t i = 0; i < count; ++i) {
            if (starts[i + 1] - starts[i] != each) each = 0;
            is_moved &= is_single(i);
            is_reversed &= is_single(i) && cells[starts[i]] == count - 1 - i;
        }
        plain_first = plain_last = 0;
        for (int64_t i = 0, first = 0; i < count; ++i) {
            const bool goes_on = i > first && is_single(i) && cells[starts[i]] == cells[starts[i - 1]] + 1;
            if (!goes_on) first = i;
            if (is_single(i) && i + 1 - first > plain_last - plain_first && is_single(first))
                plain_first = first, plain_last = i + 1;
        }
    }
};

static void reversed_floats(const float* __restrict from, int64_t n, float* __restrict to) {
    for (int64_t i = 0; i < n; ++i) to[i] = from[n - 1 - i];
}

static void sums_of_cells(const Sums& s, const float* from, int64_t first, int64_t last, float* to) {
    const int64_t *const cells = s.cells, *const starts = s.starts;
    const float* const weights = s.weights;
    if (s.is_reversed) return reversed_floats(from + cells[last - 1], last - first, to + first);
    if (s.is_moved)
        for (int64_t i = first; i < last; ++i) to[i] = from[cells[i]];
    else if (s.each == 1)
        for (int64_t i = first; i < last; ++i) to[i] = weights[i] * from[cells[i]];
    else if (s.each == 2)
        for (int64_t i = first; i < last; ++i)
            to[i] = weights[2 * i] * from[cells[2 * i]] + weights[2 * i + 1] * from[cells[2 * i + 1]];
    else
        for (int64_t i = first; i < last; ++i) {
            float total = 0;
            for (int64_t k = starts[i]; k < starts[i + 1]; ++k) total += weights[k] * from[cells[k]];
            to[i] = total;
        }
}

// A row of the result, of one row.
static void resample_row(const Sums& columns, const float* from, float* to) {
    sums_of_cells(columns, from, 0, columns.plain_first, to);
    if (columns.plain_last > columns.plain_first)
        copy_floats(to + columns.plain_first, from + columns.cells[columns.starts[columns.plain_first]],
                    columns.plain_last - columns.plain_first);
    sums_of_cells(columns, from, columns.plain_last, columns.count, to);
}

// Row i of the result: rows of n floats in their places, by their weights.
static void combine_rows(const Sums& rows, int64_t i, const float* from, int64_t n, float* to) {
    const int64_t first = rows.starts[i], last = rows.starts[i + 1];
    if (last == first) return zero_floats(to, n);
    const auto row = [&](int64_t k) { return from + rows.cells[k] * n; };
    if (last == first + 1 && rows.weights[first] == 1.0f) return copy_floats(to, row(first), n);
    const auto summed = [&](const auto& read) {
        vf total = mul(set1(rows.weights[first]), read(row(first)));
        for (int64_t k = first + 1; k < last; ++k) total = fma(set1(rows.weights[k]), read(row(k)), total);
        return total;
    };
    int64_t w = 0;
    for (; w + W <= n; w += W) store(to + w, summed([&](const float* p) { return load(p + w); }));
    const int some = int(n - w);
    if (some) store_n(to + w, summed([&](const float* p) { return load_n(p + w, some); }), some);
}

// A plane [height, width] of which rows and columns are summed up; between: room for rows of one way.
static void resample_plane(const Sums& rows, const Sums& columns, int64_t height, int64_t width, const float* from,
                           float* between, float* to) {
    const int64_t n = columns.count;
    if (rows.is_moved) {
        for (int64_t i = 0; i < rows.count; ++i) resample_row(columns, from + rows.cells[i] * width, to + i * n);
    } else if (height <= rows.count) {
        for (int64_t h = 0; h < height; ++h) resample_row(columns, from + h * width, between + h * n);
        for (int64_t i = 0; i < rows.count; ++i) combine_rows(rows, i, between, n, to + i * n);
    } else {
        for (int64_t i = 0; i < rows.count; ++i) {
            combine_rows(rows, i, from, width, between);
            resample_row(columns, between, to + i * n);
        }
    }
}

static efl_status resample(const efl_resampling& r, bool is_turned, const float* from, float* to) {
    const ResampledAxis down{r.height, r.out_height, r.top, r.mode == 5 ? 3 : r.mode},
        across{r.width, r.out_width, r.mode == 5 ? 0 : r.left, r.mode};
    const int64_t height = is_turned ? r.out_height : r.height, width = is_turned ? r.out_width : r.width;
    const int64_t tasks = blocks_of(r.planes, r.planes * (r.height * r.width + r.out_height * r.out_width));
    Sums rows, columns;
    float* between;
    int64_t room;
    const bool fits = place([&](Carve& carve) {
        rows.take(carve, down, is_turned);
        columns.take(carve, across, is_turned);
        room = whole_vectors(height <= rows.count ? height * columns.count : width);
        between = carve.take<float>(room * threads_for(tasks));
    });
    if (!fits) return EFL_NO_MEMORY;
    for (const auto& [sums, axis] : {std::pair(&rows, &down), std::pair(&columns, &across)})
        if (is_turned) sums->fill_turned(*axis);
        else sums->fill(*axis);
    const Parts blocks = Parts::into(r.planes, tasks);
    parallel(blocks.count, blocks.count, [&](int64_t block, int64_t thread) {
        for (int64_t i = blocks.first(block); i < blocks.first(block) + blocks.size(block); ++i)
            resample_plane(rows, columns, height, width, from + i * height * width, between + thread * room,
                           to + i * rows.count * columns.count);
    });
    return EFL_OK;
}

static efl_status resample_forward_f32(const efl_resampling* resampling, const float* x, float* y) {
    return resample(*resampling, false, x, y);
}

static efl_status resample_backward_f32(const efl_resampling* resampling, const float* dy, float* dx) {
    return resample(*resampling, true, dy, dx);
}
