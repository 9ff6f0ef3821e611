// Softmax cross-entropy with its gradient, a row of logits at a time, with weights of classes and smoothed labels; and
// how the losses of blocks become one. Losses against targets: target_loss.cuh. Contracts: edgefl/kernels/table.py.
#pragma once
#include "reduce.cuh"

constexpr int LOSS_THREADS = 256;

// Where a kernel's losses go: of one block to the sums, of several to partial ones, which add_losses adds up in order.
EFL_DEVICE void add_to_sums(const LossSums& sums, double loss, double correct) {
    *sums.loss += loss;
    if (sums.correct) *sums.correct += Size(correct);
}

// What all threads of a block have found. shared [LOSS_THREADS].
EFL_DEVICE void keep_sums(const LossSums& sums, double loss, double correct, double* shared) {
    loss = block_sum<LOSS_THREADS>(loss, shared);
    correct = block_sum<LOSS_THREADS>(correct, shared);
    if (threadIdx.x != 0) return;
    if (!sums.partials) return add_to_sums(sums, loss, correct);
    sums.partials[2 * blockIdx.x] = loss;
    sums.partials[2 * blockIdx.x + 1] = correct;
}

EFL_KERNEL(add_losses, LOSS_THREADS) {
    EFL_SHARED double shared[LOSS_THREADS];
    double loss = 0, correct = 0;
    EFL_ROLLED
    for (int i = int(threadIdx.x); i < a.count; i += LOSS_THREADS) {
        loss += a.sums.partials[2 * i];
        correct += a.sums.partials[2 * i + 1];
    }
    const LossSums sums = {a.sums.loss, a.sums.correct, nullptr};
    keep_sums(sums, loss, correct, shared);
}

// ---- labels
// ----------------------------------------------------------------------------------------------------------

EFL_DEVICE bool is_class(const CrossEntropyArgs& a, int label) { return unsigned(label) < unsigned(a.classes); }

EFL_DEVICE float weight_of(const CrossEntropyArgs& a, int c) { return a.weight ? a.weight[c] : 1.0f; }

// What is asked of the class of logit i.
EFL_DEVICE float wanted_of(const CrossEntropyArgs& a, int i, bool is_label) {
    if (!is_label && a.share == 0) return 0;
    const float share = float(a.share);
    return (is_label ? share + float(a.own) : share) * weight_of(a, int(unsigned(i) % unsigned(a.classes)));
}

// The weights of the batch's labels; of one that is no class none. Each block sums them up, and in the same order.
EFL_DEVICE double label_weights(const CrossEntropyArgs& a, double* shared) {
    if (!a.weight) return double(a.batch);
    double sum = 0;
    EFL_ROLLED
    for (int i = int(threadIdx.x); i < a.batch; i += LOSS_THREADS)
        if (is_class(a, a.labels[i])) sum += double(a.weight[a.labels[i]]);
    return block_sum<LOSS_THREADS>(sum, shared);
}

// What all classes share of a smoothed label.
EFL_DEVICE float shared_weights(const CrossEntropyArgs& a, double* shared) {
    if (!a.weight || a.share == 0) return float(a.share * double(a.classes));
    double sum = 0;
    EFL_ROLLED
    for (int c = int(threadIdx.x); c < a.classes; c += LOSS_THREADS) sum += double(a.weight[c]);
    return float(a.share) * float(block_sum<LOSS_THREADS>(sum, shared));
}

// A logit and its position.
struct Candidate {
    float value;
    int position;
};

// The larger one; of equals the first; a NaN before all others.
EFL_DEVICE Candidate first_largest(Candidate p, Candidate q) {
    const bool p_is_nan = p.value != p.value, q_is_nan = q.value != q.value;
    const bool is_tie = p_is_nan ? q_is_nan : p.value == q.value;
    const bool takes_p = is_tie ? p.position < q.position : p_is_nan || (!q_is_nan && p.value > q.value);
    return takes_p ? p : q;
}

// The first largest of the values of every LANES neighbours, for each of them.
template <int LANES>
EFL_DEVICE Candidate lanes_largest(Candidate value, Candidate* shared) {
    const int thread = int(threadIdx.x), lane = thread % LANES;
    shared[thread] = value;
    for (int half = LANES / 2; half > 0; half /= 2) {
        barrier();
        if (lane < half) shared[thread] = first_largest(shared[thread], shared[thread + half]);
    }
    barrier();
    return shared[thread - lane];
}

// A row of logits, of which a thread looks at each LANES-th.
struct Row {
    int first, end;  // of the thread's positions among all logits; threads without a row have no position
    int label;       // its position; -1 where the label is no class
};

// The sum over the row of e^(logit - top), and what it adds to the loss without its logarithm.
template <int LANES>
EFL_DEVICE float sum_row(const CrossEntropyArgs& a, const Row& row, float top, double* loss) {
    float exponentials = 0;
    EFL_ROLLED
    for (int i = row.first; i < row.end; i += LANES) {
        const float below = a.logits[i] - top;
        exponentials += expf(below);
        const float wanted = wanted_of(a, i, i == row.label);
        if (wanted > 0) *loss -= double(wanted * below);  // an impossible class may be asked for by nobody
    }
    return exponentials;
}

// share: of all that is asked for of the exponentials' sum; scale: of the gradient.
template <int LANES>
EFL_DEVICE void write_slopes(const CrossEntropyArgs& a, const Row& row, float top, float share, float scale) {
    EFL_ROLLED
    for (int i = row.first; i < row.end; i += LANES) {
        const float wanted = wanted_of(a, i, i == row.label);
        a.dlogits[i] = fmaf(share, expf(a.logits[i] - top), -wanted) * scale;
    }
}

struct LossShared {
    double sums[LOSS_THREADS];
    float parts[LOSS_THREADS];
    Candidate candidates[LOSS_THREADS];
};

// LANES threads a row; rows in turns.
template <int LANES>
EFL_DEVICE void cross_entropy_rows(const CrossEntropyArgs& a, LossShared& shared) {
    constexpr int ROWS = LOSS_THREADS / LANES;
    const int lane = int(threadIdx.x) % LANES, classes = int(a.classes);
    const float scale = a.dlogits ? 1 / float(label_weights(a, shared.sums)) : 1.0f;
    const float every = shared_weights(a, shared.sums);
    double loss = 0;
    int correct = 0;
    for (int from = int(blockIdx.x) * ROWS; from < a.batch; from += int(gridDim.x) * ROWS) {
        const int at = from + int(threadIdx.x) / LANES, label = at < a.batch ? a.labels[at] : -1;
        const int begin = at < a.batch ? at * classes : 0, end = at < a.batch ? begin + classes : 0;
        const bool is_known = is_class(a, label);
        const Row row = {begin + lane, end, is_known ? begin + label : -1};
        Candidate best = {-INFINITY, row.end};
        EFL_ROLLED
        for (int i = row.first; i < row.end; i += LANES) best = first_largest(best, {a.logits[i], i});
        best = lanes_largest<LANES>(best, shared.candidates);
        correct += lane == 0 && best.position == row.label;
        const float total = lanes_sum<LANES>(sum_row<LANES>(a, row, best.value, &loss), shared.parts);
        const float all = is_known ? float(a.own) * weight_of(a, label) + every : NAN;
        if (lane == 0 && row.end > 0) loss += double(all * logf(total));
        if (a.dlogits) write_slopes<LANES>(a, row, best.value, all / total, scale);
    }
    keep_sums(a.sums, loss, correct, shared.sums);
}

EFL_KERNEL(cross_entropy_narrow, LOSS_THREADS) {
    EFL_SHARED LossShared shared;
    cross_entropy_rows<32>(a, shared);
}

EFL_KERNEL(cross_entropy_wide, LOSS_THREADS) {
    EFL_SHARED LossShared shared;
    cross_entropy_rows<LOSS_THREADS / 2>(a, shared);
}
