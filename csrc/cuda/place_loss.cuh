// Softmax cross-entropy of every place of outputs [B, K, P], with its gradient. A thread takes a place, whose classes
// lie P floats apart, so that neighbours read side by side. Contract: edgefl/kernels/table.py.
#pragma once
#include "loss.cuh"
#include "places.cuh"

EFL_DEVICE float weight_of(const PlaceLossArgs& a, int c) { return a.weight ? a.weight[c] : 1.0f; }

// The label of a place of an example of the index, or -1 where it does not count.
EFL_DEVICE int counted_label(const PlaceLossArgs& a, int example, int place) {
    const int row = a.index[example];
    if (unsigned(row) >= unsigned(a.rows)) return -1;
    const int label = a.labels[Size(row) * Size(a.length) + Size(place)];
    return label != int(a.ignored) && unsigned(label) < unsigned(a.classes) ? label : -1;
}

// The weights of the labels that count. Each block sums them up, and in the same order.
EFL_DEVICE double counted_weights(const PlaceLossArgs& a, double* shared) {
    double sum = 0;
    const int length = int(a.length);
    EFL_ROLLED
    for (int i = int(threadIdx.x); i < a.every; i += LOSS_THREADS) {
        const int label = counted_label(a, i / length, i % length);
        if (label >= 0) sum += double(weight_of(a, label));
    }
    return block_sum<LOSS_THREADS>(sum, shared);
}

// What all classes share of a smoothed label, in all.
EFL_DEVICE float shared_of_places(const PlaceLossArgs& a) {
    if (a.share == 0) return 0;
    float sum = 0;
    EFL_ROLLED
    for (int c = 0; c < a.classes; ++c) sum += weight_of(a, c);
    return float(a.share) * sum;
}

EFL_KERNEL(place_cross_entropy, LOSS_THREADS) {
    EFL_SHARED double shared[LOSS_THREADS];
    const int places = int(a.places), classes = int(a.classes);
    const double weights = counted_weights(a, shared);
    const float scale = weights > 0 ? float(1 / weights) : 0.0f, every = shared_of_places(a);
    double loss = 0, correct = 0;
    each_position(a.count, [&](int i) {
        const int label = counted_label(a, i / places + int(a.before), i % places + int(a.from));
        const int first = i / places * classes * places + i % places;
        if (label < 0) {
            if (!a.dlogits) return;
            EFL_ROLLED
            for (int c = 0; c < classes; ++c) a.dlogits[first + c * places] = 0;
            return;
        }
        Candidate best = {-INFINITY, classes};
        EFL_ROLLED
        for (int c = 0; c < classes; ++c) best = first_largest(best, {a.logits[first + c * places], c});
        correct += best.position == label;
        float total = 0, margin = 0;
        EFL_ROLLED
        for (int c = 0; c < classes; ++c) {
            const float below = a.logits[first + c * places] - best.value;
            total += expf(below);
            if (a.share > 0) margin -= float(a.share) * weight_of(a, c) * below;
        }
        const float own = float(a.own) * weight_of(a, label), all = own + every;
        loss += double(all * logf(total) + margin - own * (a.logits[first + label * places] - best.value));
        if (!a.dlogits) return;
        EFL_ROLLED
        for (int c = 0; c < classes; ++c) {
            const int at = first + c * places;
            const float wanted = float(a.share) * weight_of(a, c) + (c == label ? own : 0.0f);
            a.dlogits[at] = fmaf(all / total, expf(a.logits[at] - best.value), -wanted) * scale;
        }
    });
    keep_sums(a.sums, loss, correct, shared);
}
