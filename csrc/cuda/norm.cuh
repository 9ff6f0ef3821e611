// Batch, group and layer normalisation, with a rectifier or without. Contracts: csrc/edgefl.h. What a layer normalisation
// is over, the channels of a place, is a group of all channels with places for lanes.
#pragma once
#include "norm_back.cuh"
#include "statistics.cuh"

namespace norms {

// A value of x and what belongs to it.
struct Read {
    float x;
    Affine f;
};

template <bool GROUPED>
EFL_DEVICE void norm_forward(const ForwardArgs& a, Pair* shared, Affine* found) {
    const Part part = part_of(a.runs);
    const Affine known = normalisation_of(a, part, shared, found);
    if (!part.exists) return;
    const Affine f = GROUPED ? known : with_channel<false>(a, part, known, 0);
    const int inner = int(a.runs.inner);
    const Address address = address_of(a.runs, part, inner);
    const bool rectifies = a.rectifies != 0;
    const float most = float(a.most);
    each_place<4>(
        walk_of(a.runs, part, inner),
        [&](int row, int column) {
            return Read{a.x[place_at(address, row, column)], GROUPED ? with_channel<true>(a, part, f, row) : f};
        },
        [&](int row, int column, const Read& read) {
            const int place = place_at(address, row, column);
            const float normal = normal_of(read.f, read.x), z = affine_of(read.f, normal);
            if (a.xhat) a.xhat[place] = normal;
            a.y[place] = rectifies ? rectified(z, 0, most) : z;
        });
}

EFL_KERNEL(batchnorm_forward, 256, ForwardArgs) {
    EFL_SHARED Pair shared[RUN_THREADS];
    EFL_SHARED Affine found[RUN_THREADS];
    norm_forward<false>(a, shared, found);
}

EFL_KERNEL(groupnorm_forward, 256, ForwardArgs) {
    EFL_SHARED Pair shared[RUN_THREADS];
    EFL_SHARED Affine found[RUN_THREADS];
    norm_forward<true>(a, shared, found);
}

// ---- back ------------------------------------------------------------------------------------------------------------

// One value's signal, with what it was normalised by.
struct Sent {
    float dy, x;
    Affine f;
};

template <Kind KIND>
struct Cells {
    const BackArgs& a;
    const Part& part;
    Affine fixed;
    Address address;
};

template <Kind KIND>
EFL_DEVICE Cells<KIND> cells_of(const BackArgs& a, const Part& part) {
    return {a, part, fixed_affine<KIND>(a, part), address_of(a.runs, part, int(a.runs.inner))};
}

template <Kind KIND>
EFL_DEVICE Sent sent_at(const Cells<KIND>& cells, int row, int column) {
    const int place = place_at(cells.address, row, column);
    return {cells.a.dy[place], cells.a.x[place], affine_at<KIND>(cells.a, cells.part, cells.fixed, row, column)};
}

template <Kind KIND>
EFL_DEVICE Pair signals_of(const BackArgs& a, const Part& part) {
    if (!part.exists) return {0, 0};
    const Cells<KIND> cells = cells_of<KIND>(a, part);
    Signals sum = {0, 0};
    each_place<4>(
        walk_of(a.runs, part, int(a.runs.inner)),
        [&](int row, int column) { return sent_at(cells, row, column); },
        [&](int, int, const Sent& sent) {
            const float normal = normal_of(sent.f, sent.x);
            add_signal<KIND>(sum, sent.f, passed(a, affine_of(sent.f, normal), sent.dy), normal);
        });
    return {sum.dz, sum.dz_xhat};
}

template <Kind KIND>
EFL_DEVICE void norm_backward(const BackArgs& a, Pair* shared, Way* ways) {
    const Part part = part_of(a.runs);
    const Pair sum = a.left ? pieces_sum(a.runs, part, a.left, shared)
                            : team_sum(a.runs, part, signals_of<KIND>(a, part), shared);
    const Way way = way_of<KIND>(a, part, sum, ways);
    if (!part.exists) return;
    const Cells<KIND> cells = cells_of<KIND>(a, part);
    each_place<4>(
        walk_of(a.runs, part, int(a.runs.inner)),
        [&](int row, int column) { return sent_at(cells, row, column); },
        [&](int row, int column, const Sent& sent) {
            const float normal = normal_of(sent.f, sent.x), dz = passed(a, affine_of(sent.f, normal), sent.dy);
            a.dx[place_at(cells.address, row, column)] = gradient<KIND>(way, sent.f, dz, normal);
        });
}

EFL_KERNEL(batchnorm_sums, 256, BackArgs) {
    EFL_SHARED Pair shared[RUN_THREADS];
    const Part part = part_of(a.runs);
    leave_sums(a, part, team_sum(a.runs, part, signals_of<Kind::channel>(a, part), shared));
}

EFL_KERNEL(groupnorm_sums, 256, BackArgs) {
    EFL_SHARED Pair shared[RUN_THREADS];
    const Part part = part_of(a.runs);
    leave_sums(a, part, team_sum(a.runs, part, signals_of<Kind::group>(a, part), shared));
}

EFL_KERNEL(groupnorm_channel_sums, 256, BackArgs) {
    EFL_SHARED Pair shared[RUN_THREADS];
    const Part part = part_of(a.runs);
    leave_sums(a, part, team_sum(a.runs, part, signals_of<Kind::channel_of_groups>(a, part), shared));
}

EFL_KERNEL(batchnorm_backward, 256, BackArgs) {
    EFL_SHARED Pair shared[RUN_THREADS];
    EFL_SHARED Way ways[RUN_THREADS];
    norm_backward<Kind::channel>(a, shared, ways);
}

EFL_KERNEL(groupnorm_backward, 256, BackArgs) {
    EFL_SHARED Pair shared[RUN_THREADS];
    EFL_SHARED Way ways[RUN_THREADS];
    norm_backward<Kind::group>(a, shared, ways);
}

// The gradients of outs, of what their pieces have left.
EFL_KERNEL(norm_gradients, 256, BackArgs) {
    const int run = int(thread_of_grid()), count = int(a.outs.count);
    if (run >= count) return;
    Pair sum = {0, 0};
    EFL_ROLLED
    for (int i = 0; i < int(a.runs.pieces); ++i) add_to(sum, a.left[i * count + run]);
    a.dweight[run] = float(sum.second);
    a.dbias[run] = float(sum.first);
}

}  // namespace norms
