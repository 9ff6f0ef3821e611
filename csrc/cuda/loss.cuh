// Softmax cross-entropy with its gradient, a row of logits at a time, with weights of classes and smoothed labels; and how
// the losses of blocks become one. Losses against targets: target_loss.cuh. Contracts: csrc/edgefl.h.
#pragma once
#include "reduce.cuh"

constexpr int LOSS_THREADS = 256;

// Where a kernel's losses go: of one block to the sums, of several to partial ones, which add_losses adds up in order.
struct Sums {
    double* loss;
    Size* correct;     // or null
    double* partials;  // [blocks, 2]; null: there is one block
};

EFL_DEVICE void add_to_sums(const Sums& sums, double loss, double correct) {
    *sums.loss += loss;
    if (sums.correct) *sums.correct += Size(correct);
}

// What all threads of a block have found. shared [LOSS_THREADS].
EFL_DEVICE void keep_sums(const Sums& sums, double loss, double correct, double* shared) {
    loss = block_sum<LOSS_THREADS>(loss, shared);
    correct = block_sum<LOSS_THREADS>(correct, shared);
    if (threadIdx.x != 0) return;
    if (!sums.partials) return add_to_sums(sums, loss, correct);
    sums.partials[2 * blockIdx.x] = loss;
    sums.partials[2 * blockIdx.x + 1] = correct;
}

struct AddLossesArgs {
    Sums sums;
    Size count;
};

EFL_KERNEL(add_losses, LOSS_THREADS, AddLossesArgs) {
    EFL_SHARED double shared[LOSS_THREADS];
    double loss = 0, correct = 0;
    for (int i = int(threadIdx.x); i < a.count; i += LOSS_THREADS) {
        loss += a.sums.partials[2 * i];
        correct += a.sums.partials[2 * i + 1];
    }
    const Sums sums = {a.sums.loss, a.sums.correct, nullptr};
    keep_sums(sums, loss, correct, shared);
}

// ---- labels ----------------------------------------------------------------------------------------------------------

struct CrossEntropyArgs {
    const float* logits;
    const int* labels;
    const float* weight;  // null: 1
    float* dlogits;       // or null
    Sums sums;
    Size batch, classes;
    double smoothing;
};

EFL_DEVICE bool is_class(const CrossEntropyArgs& a, int label) { return unsigned(label) < unsigned(a.classes); }

EFL_DEVICE double weight_of(const CrossEntropyArgs& a, int c) { return a.weight ? double(a.weight[c]) : 1.0; }

// What is asked of class c by a label.
EFL_DEVICE double asked_of(const CrossEntropyArgs& a, int c, int label) {
    const double share = a.smoothing > 0 ? a.smoothing / double(a.classes) : 0.0;
    return (share + (c == label ? 1.0 - a.smoothing : 0.0)) * weight_of(a, c);
}

// The weights of the batch's labels; of one that is no class none. Each block sums them up, and in the same order.
EFL_DEVICE double label_weights(const CrossEntropyArgs& a, double* shared) {
    if (!a.weight) return double(a.batch);
    double sum = 0;
    for (int i = int(threadIdx.x); i < a.batch; i += LOSS_THREADS)
        if (is_class(a, a.labels[i])) sum += double(a.weight[a.labels[i]]);
    return block_sum<LOSS_THREADS>(sum, shared);
}

// What all classes share of a smoothed label.
EFL_DEVICE double shared_weights(const CrossEntropyArgs& a, double* shared) {
    if (!a.weight || !(a.smoothing > 0)) return a.smoothing;
    double sum = 0;
    for (int c = int(threadIdx.x); c < a.classes; c += LOSS_THREADS) sum += double(a.weight[c]);
    return a.smoothing / double(a.classes) * block_sum<LOSS_THREADS>(sum, shared);
}

// A logit and where it is.
struct Placed {
    float value;
    int place;
};

// The larger one; of equals the first; a NaN before all others.
EFL_DEVICE Placed first_largest(Placed p, Placed q) {
    const bool p_is_nan = p.value != p.value, q_is_nan = q.value != q.value;
    const bool is_tie = p_is_nan ? q_is_nan : p.value == q.value;
    const bool takes_p = is_tie ? p.place < q.place : p_is_nan || (!q_is_nan && p.value > q.value);
    return takes_p ? p : q;
}

// The first largest of the values of every LANES neighbours, for each of them.
template <int LANES>
EFL_DEVICE Placed lanes_largest(Placed value, Placed* shared) {
    const int thread = int(threadIdx.x), lane = thread % LANES;
    shared[thread] = value;
    for (int half = LANES / 2; half > 0; half /= 2) {
        barrier();
        if (lane < half) shared[thread] = first_largest(shared[thread], shared[thread + half]);
    }
    barrier();
    return shared[thread - lane];
}

// LANES threads a row; rows in turns.
template <int LANES>
EFL_DEVICE void cross_entropy_rows(const CrossEntropyArgs& a, double* shared, Placed* placed) {
    constexpr int ROWS = LOSS_THREADS / LANES;
    const int lane = int(threadIdx.x) % LANES, classes = int(a.classes);
    const double weights = a.dlogits ? label_weights(a, shared) : 1.0, every = shared_weights(a, shared);
    double loss = 0, correct = 0;
    for (int first = int(blockIdx.x) * ROWS; first < a.batch; first += int(gridDim.x) * ROWS) {
        const int row = first + int(threadIdx.x) / LANES, count = row < a.batch ? classes : 0;
        const int label = count ? a.labels[row] : -1;
        const bool is_known = is_class(a, label);
        const float* const logits = a.logits + Size(row) * classes;
        Placed best = {-INFINITY, classes};
        for (int c = lane; c < count; c += LANES) best = first_largest(best, {logits[c], c});
        best = lanes_largest<LANES>(best, placed);
        float exponentials = 0;
        for (int c = lane; c < count; c += LANES) {
            const float below = logits[c] - best.value;
            exponentials += expf(below);
            if (c != label && !(a.smoothing > 0)) continue;
            const double asked = asked_of(a, c, label);
            if (asked > 0) loss -= asked * double(below);
        }
        const double total = lanes_sum<LANES>(double(exponentials), shared);
        const double all = is_known ? (1.0 - a.smoothing) * weight_of(a, label) + every : double(NAN);
        if (lane == 0 && count) {
            loss += all * log(total);
            correct += best.place == label;
        }
        if (!a.dlogits) continue;
        const double share = all / total;
        const float scale = float(1.0 / weights), probability = float(share / weights);
        for (int c = lane; c < count; c += LANES) {
            const float e = expf(logits[c] - best.value);
            float slope = probability * e;
            if (c == label) slope = float((share * double(e) - asked_of(a, c, label)) / weights);  // they may cancel
            else if (a.smoothing > 0) slope -= scale * float(asked_of(a, c, label));
            a.dlogits[Size(row) * classes + c] = slope;
        }
    }
    keep_sums(a.sums, loss, correct, shared);
}

EFL_KERNEL(cross_entropy_narrow, LOSS_THREADS, CrossEntropyArgs) {
    EFL_SHARED double shared[LOSS_THREADS];
    EFL_SHARED Placed placed[LOSS_THREADS];
    cross_entropy_rows<32>(a, shared, placed);
}

EFL_KERNEL(cross_entropy_wide, LOSS_THREADS, CrossEntropyArgs) {
    EFL_SHARED double shared[LOSS_THREADS];
    EFL_SHARED Placed placed[LOSS_THREADS];
    cross_entropy_rows<LOSS_THREADS>(a, shared, placed);
}
