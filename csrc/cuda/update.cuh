// SGD, Nesterov, Adam, and clipping. Contracts: edgefl/kernels/table.py. Products and sums are rounded apart and come
// in the order in which the CPU's kernels have them.
#pragma once
#include "block.cuh"
#include "places.cuh"
#include "reduce.cuh"
#include "several.cuh"

namespace update {

using namespace parameters;

// ---- clipping ------------------------------------------------------------------------------------------------------

// Each block writes the sum of its threads. One block alone adds its sum to the total.
EFL_DEVICE void put_sum(double sum, double* sums) {
    EFL_SHARED double shared[256];
    sum = block_sum<256>(sum, shared);
    if (threadIdx.x > 0) return;
    if (gridDim.x == 1) *sums += sum;
    else sums[blockIdx.x] = sum;
}

EFL_KERNEL(sum_squares, 256) {
    double sum = 0;
    for (Size i = thread_of_grid(); i < a.count; i += threads_of_grid()) {
        const double x = a.x[i];
        sum = fma(x, x, sum);  // a square is exact
    }
    put_sum(sum, a.sums);
}

EFL_KERNEL(sum_squared_changes, 256) {
    double sum = 0;
    for (Size i = thread_of_grid(); i < a.count; i += threads_of_grid()) {
        const double change = double(a.x[i]) - double(a.before[i]);
        sum = fma(change, change, sum);
    }
    put_sum(sum, a.sums);
}

// In one block.
EFL_KERNEL(add_squares, 256) {
    EFL_SHARED double shared[256];
    double sum = 0;
    for (Size i = threadIdx.x; i < a.count; i += 256) sum += a.sums[i];
    sum = block_sum<256>(sum, shared);
    if (threadIdx.x == 0) *a.total += sum;
}

EFL_KERNEL(add_scaled, 256) {
    const Size i = thread_of_grid();
    if (i >= a.count) return;
    double sum = a.total[i] + a.factors[0] * double(a.x[i]);
    if (a.second) sum += a.factors[1] * double(a.second[i]);
    if (a.third) sum += a.factors[2] * double(a.third[i]);
    if (a.fourth) sum += a.factors[3] * double(a.fourth[i]);
    a.total[i] = sum;
}

EFL_KERNEL(clip_scale, 1) {
    const double scale = a.max_norm / (sqrt(*a.total) + 1e-6);
    *a.scale = float(scale > 1 ? 1 : scale);  // NaN stays
}

// ---- SGD -----------------------------------------------------------------------------------------------------------

struct Terms {
    float scale, decay, pull;
    bool has_centre;
};

EFL_DEVICE Terms terms_of(const Gradient& a, float decay, float pull) {
    return {a.scale ? *a.scale : 1.0f, decay, pull, a.centre && pull != 0};
}

EFL_DEVICE float gradient(const Gradient& a, const Terms& terms, Size k, float w) {
    float g = terms.scale * a.grad[k] + terms.decay * w;
    if (terms.has_centre) g += terms.pull * (w - a.centre[k]);
    if (a.linear) g += a.linear[k];
    return g;
}

// Whether the values lie in w as they lie in the gradient, on 16 bytes, and a step has no more to read of them.
EFL_DEVICE bool are_neighbours(const Gradient& a, const Terms& terms, const float* more) {
    return !a.block.rows.list && !a.block.columns.list && !terms.has_centre && !a.linear &&
           are_aligned(a.w, a.grad, more);
}

// Steps four neighbours at a time, and returns how many values those are.
EFL_DEVICE Size sgd_fours(const SgdArgs& a, const Turn& turn, const Terms& terms, float* velocity) {
    const float lr = a.hyper[0], momentum = a.hyper[1];
    const Size fours = are_neighbours(a.gradient, terms, velocity) ? size_of(a.gradient.block) / 4 : 0;
    EFL_ROLLED
    for (Size k = turn.thread; k < fours; k += turn.threads) {
        float w[4], g[4], v[4] = {};
        read_four(a.gradient.w + 4 * k, w);
        read_four(a.gradient.grad + 4 * k, g);
        if (velocity) read_four(velocity + 4 * k, v);
        EFL_UNROLL
        for (int i = 0; i < 4; ++i) {
            g[i] = terms.scale * g[i] + terms.decay * w[i];
            if (velocity) {
                v[i] = momentum * v[i] + g[i];
                g[i] = a.nesterov ? g[i] + momentum * v[i] : v[i];
            }
            w[i] = w[i] - lr * g[i];
        }
        if (velocity) write_neighbours(velocity + 4 * k, true, v);
        write_neighbours(a.gradient.w + 4 * k, true, w);
    }
    return 4 * fours;
}

EFL_KERNEL(sgd, 256) {
    const Turn turn = turn_of(a);
    const SgdArgs& mine = a.of[turn.call];
    const float lr = mine.hyper[0], momentum = mine.hyper[1];
    const Terms terms = terms_of(mine.gradient, mine.hyper[2], mine.hyper[3]);
    float* const velocity = momentum != 0 || mine.nesterov ? mine.velocity : nullptr;
    const Size done = sgd_fours(mine, turn, terms, velocity);
    EFL_ROLLED
    for (Size k = done + turn.thread; k < size_of(mine.gradient.block); k += turn.threads) {
        float& w = mine.gradient.w[position_of(mine.gradient.block, int(k))];
        const float before = w;
        float g = gradient(mine.gradient, terms, k, before);
        if (velocity) {
            const float v = momentum * velocity[k] + g;
            velocity[k] = v;
            g = mine.nesterov ? g + momentum * v : v;
        }
        w = before - lr * g;
    }
}

// ---- Adam ----------------------------------------------------------------------------------------------------------

EFL_KERNEL(begin_adam, 1) {
    const AdamSettings& s = *a.settings;
    const double step = double(++*a.steps);
    AdamRates& rates = *a.rates;
    rates.mean_share = float(1 - s.beta1);
    rates.square_kept = float(s.beta2);
    rates.square_share = float(1 - s.beta2);
    rates.step = float(s.lr / (1 - pow(s.beta1, step)));
    rates.root = float(sqrt(1 - pow(s.beta2, step)));
    rates.eps = float(s.eps);
    rates.decay = s.decoupled != 0 ? 0.0f : float(s.weight_decay);
    rates.kept = s.decoupled != 0 ? float(1 - s.lr * s.weight_decay) : 1.0f;
    rates.pull = float(s.pull);
}

EFL_KERNEL(adam, 256) {
    const Turn turn = turn_of(a);
    const AdamArgs& mine = a.of[turn.call];
    const AdamRates rates = *mine.rates;
    const Terms terms = terms_of(mine.gradient, rates.decay, rates.pull);
    EFL_ROLLED
    for (Size k = turn.thread; k < size_of(mine.gradient.block); k += turn.threads) {
        float& w = mine.gradient.w[position_of(mine.gradient.block, int(k))];
        const float before = w, g = gradient(mine.gradient, terms, k, before);
        const float mean = mine.mean[k] + rates.mean_share * (g - mine.mean[k]);
        const float square = rates.square_kept * mine.square[k] + rates.square_share * g * g;
        mine.mean[k] = mean;
        mine.square[k] = square;
        w = before * rates.kept - rates.step * mean / (sqrtf(square) / rates.root + rates.eps);
    }
}

}  // namespace update
