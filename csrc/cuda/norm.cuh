// Batch, group and layer normalisation, with a rectifier or without. Contracts: edgefl/kernels/table.py. What a layer
// normalisation is over, the channels of a position, is a group of all channels with positions for lanes.
#pragma once
#include "norm_back.cuh"
#include "statistics.cuh"

namespace norms {

// Loads before what is done with them: more would take registers that other threads need.
template <int WIDTH>
constexpr int AT_ONCE = WIDTH == 4 ? 2 : 4;

// Neighbours of x and what belongs to them.
template <int WIDTH>
struct Read {
    Values<WIDTH> x;
    Affine f;
};

template <int WIDTH>
EFL_DEVICE void normalise(const ForwardArgs& a, const Part& part, const Affine& f) {
    const Address address = address_of_cells<WIDTH>(a.runs, part);
    const float most = float(a.most);
    each_position<AT_ONCE<WIDTH>>(
        walk_of(a.runs, part, int(a.runs.inner) / WIDTH),
        [&](int row, int column) {
            const Values<WIDTH> x = values_at<WIDTH>(a.x, position_at(address, row, column));
            return Read<WIDTH>{x, a.by_row ? with_channel(a, part, f, row) : f};
        },
        [&](int row, int column, const Read<WIDTH>& read) {
            const int position = position_at(address, row, column);
            Values<WIDTH> normal, y;
            EFL_UNROLL
            for (int i = 0; i < WIDTH; ++i) {
                normal.of[i] = normal_of(read.f, read.x.of[i]);
                const float z = affine_of(read.f, normal.of[i]);
                y.of[i] = a.rectifies ? rectified(z, 0, most) : z;
            }
            if (a.xhat) put_values(a.xhat, position, normal);
            put_values(a.y, position, y);
        });
}

EFL_KERNEL(norm_forward, 256) {
    EFL_SHARED Pair shared[RUN_THREADS];
    EFL_SHARED Affine found[RUN_THREADS];
    const Part part = part_of(a.runs);
    const Affine known = normalisation_of(a, part, shared, found);
    if (!part.exists || a.leaves) return;
    const Affine f = with_channel(a, part, known, 0);
    if (takes_fours(a.runs, a.x, a.y, a.xhat)) normalise<4>(a, part, f);
    else normalise<1>(a, part, f);
}

// ---- back ---------------------------------------------------------------------------------------------------------

// The gradients of neighbours of the output, and what those were normalised by.
template <int WIDTH>
struct Sent {
    Values<WIDTH> dy, x;
    Affine f;
};

// Calls use(position, sent) for a thread's neighbours.
template <int WIDTH, class Use>
EFL_DEVICE void each_sent(const BackArgs& a, const Part& part, const Use& use) {
    const Address address = address_of_cells<WIDTH>(a.runs, part);
    const Affine f = fixed_affine(a, part);
    each_position<AT_ONCE<WIDTH>>(
        walk_of(a.runs, part, int(a.runs.inner) / WIDTH),
        [&](int row, int column) {
            const int position = position_at(address, row, column);
            return Sent<WIDTH>{values_at<WIDTH>(a.dy, position), values_at<WIDTH>(a.x, position),
                               affine_at(a, part, f, row, column)};
        },
        [&](int row, int column, const Sent<WIDTH>& sent) { use(position_at(address, row, column), sent); });
}

template <int WIDTH>
EFL_DEVICE GradSums grad_sums_of(const BackArgs& a, const Part& part) {
    GradSums sum = {0, 0};
    each_sent<WIDTH>(a, part, [&](int, const Sent<WIDTH>& sent) {
        EFL_UNROLL
        for (int i = 0; i < WIDTH; ++i) {
            const float normal = normal_of(sent.f, sent.x.of[i]);
            add_grad(a, sum, sent.f, passed(a, affine_of(sent.f, normal), sent.dy.of[i]), normal);
        }
    });
    return sum;
}

EFL_DEVICE Pair grads_of(const BackArgs& a, const Part& part) {
    if (!part.exists) return {0, 0};
    const bool is_wide = a.stat_lanes < 2 && takes_fours(a.runs, a.dy, a.x);  // else neighbours differ
    const GradSums sum = is_wide ? grad_sums_of<4>(a, part) : grad_sums_of<1>(a, part);
    return {sum.dz, sum.dz_xhat};
}

template <int WIDTH>
EFL_DEVICE void put_gradients(const BackArgs& a, const Part& part, const Way& way) {
    each_sent<WIDTH>(a, part, [&](int position, const Sent<WIDTH>& sent) {
        Values<WIDTH> dx;
        EFL_UNROLL
        for (int i = 0; i < WIDTH; ++i) {
            const float normal = normal_of(sent.f, sent.x.of[i]);
            dx.of[i] = gradient(a, way, sent.f, passed(a, affine_of(sent.f, normal), sent.dy.of[i]), normal);
        }
        put_values(a.dx, position, dx);
    });
}

EFL_KERNEL(norm_backward, 256) {
    EFL_SHARED Pair shared[RUN_THREADS];
    EFL_SHARED Way ways[RUN_THREADS];
    const Part part = part_of(a.runs);
    const Pair seen = a.left ? pieces_of(a.runs, part, a.left) : grads_of(a, part);
    const Pair sum = team_sum(a.runs, part, seen, shared);
    if (is_for_sums(a)) return leave_sums(a, part, sum);
    const Way way = way_of(a, part, sum, ways);
    if (!part.exists) return;
    if (takes_fours(a.runs, a.dy, a.x, a.dx)) put_gradients<4>(a, part, way);
    else put_gradients<1>(a, part, way);
}

// The gradients of outs, of what blocks have left of their pieces.
EFL_KERNEL(norm_gradients, 256) {
    const int run = int(thread_of_grid()), count = int(a.outs.count);
    if (run >= count) return;
    Pair sum = {0, 0};
    EFL_ROLLED
    for (int i = 0; i < int(a.runs.pieces); ++i) add_to(sum, a.left[i * count + run]);
    a.dweight[run] = float(sum.second);
    a.dbias[run] = float(sum.first);
}

}  // namespace norms
