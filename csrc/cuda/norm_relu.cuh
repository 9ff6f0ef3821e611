// Normalisation, rectifier and the largest of each 2 x 2 window in one. Contracts: edgefl/kernels/table.py. Without
// windows they are those of norm.cuh. Rows of planes are walked window by window.
#pragma once
#include "norm_back.cuh"
#include "statistics.cuh"

namespace norms {

// The cells of a plane's window, row by row.
struct Window {
    float cells[4];
};

// Planes of height x width, and the windows that fit, or that begin, in a row of them.
struct Halves {
    int height, width, columns, count;
    Divisor by_columns;
};

EFL_DEVICE Halves halves_of(Size inner, Size width, int more, const Divisor& by_columns) {
    const int height = int(inner / width), columns = int(width + more) / 2;
    return {height, int(width), columns, (height + more) / 2 * columns, by_columns};
}

EFL_DEVICE int first_cell(const Halves& halves, int window) {
    const Split at = split(window, halves.columns, halves.by_columns);
    return 2 * (at.whole * halves.width + at.rest);
}

EFL_DEVICE Window window_at(const float* x, int width) { return {{x[0], x[1], x[width], x[width + 1]}}; }

struct ReadWindow {
    Window x;
    Affine f;
};

EFL_DEVICE float largest(const Affine& f, const Window& x, float most) {
    float best = rectified(affine_of(f, normal_of(f, x.cells[0])), 0, most);
    EFL_UNROLL
    for (int i = 1; i < 4; ++i) {
        const float next = rectified(affine_of(f, normal_of(f, x.cells[i])), 0, most);
        if (!(next <= best)) best = best == best ? next : best;  // a NaN stays
    }
    return best;
}

EFL_KERNEL(norm_pooled_forward, 256) {
    EFL_SHARED Pair shared[RUN_THREADS];
    EFL_SHARED Affine found[RUN_THREADS];
    const Part part = part_of(a.runs);
    const Affine known = normalisation_of(a, part, shared, found);
    if (!part.exists || a.leaves) return;
    const Affine f = with_channel(a, part, known, 0);
    const Halves halves = halves_of(a.runs.inner, a.width, 0, a.by_windows);
    const Address planes = address_of(a.runs, part, int(a.runs.inner)), pooled = address_of(a.runs, part, halves.count);
    const float most = float(a.most);
    each_position<2>(
        walk_of(a.runs, part, halves.count),
        [&](int row, int column) {
            const float* const x = a.x + position_at(planes, row, first_cell(halves, column));
            return ReadWindow{window_at(x, halves.width), a.by_row ? with_channel(a, part, f, row) : f};
        },
        [&](int row, int column, const ReadWindow& read) {
            a.y[position_at(pooled, row, column)] = largest(read.f, read.x, most);
        });
}

// ---- back ---------------------------------------------------------------------------------------------------------

struct SentWindow {
    float dy;
    Window x;
    Affine f;
};

// Which cell won and what it is: the first with the largest sign(weight) x; a NaN is larger than all.
struct Winner {
    int cell;
    float x;
};

EFL_DEVICE Winner winner_of(const Window& x, float weight) {
    const float sign = weight > 0 ? 1.0f : weight < 0 ? -1.0f : 0.0f;
    Winner best = {0, x.cells[0]};
    float key = sign * best.x;
    EFL_UNROLL
    for (int i = 1; i < 4; ++i) {
        const float next = sign * x.cells[i];
        if (next <= key || key != key) continue;
        best = {i, x.cells[i]};
        key = next;
    }
    return best;
}

EFL_DEVICE Pair pooled_grads_of(const BackArgs& a, const Part& part) {
    if (!part.exists) return {0, 0};
    const Halves halves = halves_of(a.runs.inner, a.width, 0, a.by_windows);
    const Address planes = address_of(a.runs, part, int(a.runs.inner)), pooled = address_of(a.runs, part, halves.count);
    const Affine f = fixed_affine(a, part);
    GradSums sum = {0, 0};
    each_position<2>(
        walk_of(a.runs, part, halves.count),
        [&](int row, int column) {
            const float* const x = a.x + position_at(planes, row, first_cell(halves, column));
            return SentWindow{a.dy[position_at(pooled, row, column)], window_at(x, halves.width),
                              affine_at(a, part, f, row, 0)};
        },
        [&](int, int, const SentWindow& sent) {
            const float normal = normal_of(sent.f, winner_of(sent.x, sent.f.weight).x);
            add_grad(a, sum, sent.f, passed(a, affine_of(sent.f, normal), sent.dy), normal);
        });
    return {sum.dz, sum.dz_xhat};
}

// dx of a window's cells, or of those that a plane has of one at its edge, where nothing was pooled.
struct Corner {
    int h, w, cell;
    bool right, below;
};

EFL_DEVICE Corner corner_of(const Halves& all, int window) {
    const Split at = split(window, all.columns, all.by_columns);
    return {at.whole, at.rest, first_cell(all, window), 2 * at.rest + 1 < all.width, 2 * at.whole + 1 < all.height};
}

EFL_DEVICE void write_window(const BackArgs& a, const Way& way, const SentWindow& sent, const Corner& corner, float dz,
                             int cell, int width, float* dx) {
    const auto of = [&](int i) {
        return gradient(a, way, sent.f, i == cell ? dz : 0, normal_of(sent.f, sent.x.cells[i]));
    };
    dx[0] = of(0);
    if (corner.right) dx[1] = of(1);
    if (corner.below) dx[width] = of(2);
    if (corner.right && corner.below) dx[width + 1] = of(3);
}

EFL_KERNEL(norm_pooled_backward, 256) {
    EFL_SHARED Pair shared[RUN_THREADS];
    EFL_SHARED Way ways[RUN_THREADS];
    const Part part = part_of(a.runs);
    const Pair seen = a.left ? pieces_of(a.runs, part, a.left) : pooled_grads_of(a, part);
    const Pair sum = team_sum(a.runs, part, seen, shared);
    if (is_for_sums(a)) return leave_sums(a, part, sum);
    const Way way = way_of(a, part, sum, ways);
    if (!part.exists) return;
    const Halves all = halves_of(a.runs.inner, a.width, 1, a.by_begun);
    const Halves whole = halves_of(a.runs.inner, a.width, 0, a.by_windows);
    const Address planes = address_of(a.runs, part, int(a.runs.inner)), pooled = address_of(a.runs, part, whole.count);
    const Affine f = fixed_affine(a, part);
    each_position<2>(
        walk_of(a.runs, part, all.count),
        [&](int row, int column) {
            const Corner at = corner_of(all, column);
            const bool is_whole = at.right && at.below;
            const float* const x = a.x + position_at(planes, row, at.cell);
            const Window cells = {
                {x[0], at.right ? x[1] : 0, at.below ? x[all.width] : 0, is_whole ? x[all.width + 1] : 0}};
            const float dy = is_whole ? a.dy[position_at(pooled, row, at.h * whole.columns + at.w)] : 0;
            return SentWindow{dy, cells, affine_at(a, part, f, row, 0)};
        },
        [&](int row, int column, const SentWindow& sent) {
            const Corner at = corner_of(all, column);
            const Winner winner = winner_of(sent.x, sent.f.weight);
            const float dz = passed(a, affine_of(sent.f, normal_of(sent.f, winner.x)), sent.dy);
            write_window(a, way, sent, at, dz, winner.cell, all.width, a.dx + position_at(planes, row, at.cell));
        });
}

}  // namespace norms
