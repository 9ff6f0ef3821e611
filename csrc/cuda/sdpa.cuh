// Attention whose heads may share keys and values, with a bias, a window and dropout of the shares. Contracts:
// edgefl/kernels/table.py.
//
// A thread has a query, or going back also a key, and walks along what it meets: every sum is one thread's, so that no
// order changes a bit. Nothing of the shares is kept.
#pragma once
#include "dropout.cuh"

namespace sdpa {

// A query of a head of an image.
struct Query {
    int image, head, at;
};

EFL_DEVICE Query query_of(const Heads& h, int i) {
    const int places = int(h.places), heads = int(h.heads);
    return {i / places / heads, i / places % heads, i % places};
}

EFL_DEVICE int rows(const Heads& h) { return int(h.heads + 2 * h.kv_heads) * int(h.size); }
EFL_DEVICE int query_at(const Heads& h, int image, int head) {
    return (image * rows(h) + head * int(h.size)) * int(h.places);
}
// Part 0 has the keys, part 1 the values.
EFL_DEVICE int shared_at(const Heads& h, int image, int head, int part) {
    const int kv_heads = int(h.kv_heads), kv_head = head / (int(h.heads) / kv_heads);
    return (image * rows(h) + (int(h.heads) + part * kv_heads + kv_head) * int(h.size)) * int(h.places);
}
EFL_DEVICE int result_at(const Heads& h, int image, int head) {
    return (image * int(h.heads) + head) * int(h.size) * int(h.places);
}
EFL_DEVICE int bias_at(const Heads& h, int head) {
    return head / (int(h.heads) / int(h.masks)) * int(h.places) * int(h.places);
}

EFL_DEVICE int first_key(const Heads& h, int query) {
    return h.window && query >= h.window ? query - int(h.window) + 1 : 0;
}
EFL_DEVICE int end_of_keys(const Heads& h, int query) { return h.is_causal ? query + 1 : int(h.places); }

// a[:, i] . b[:, j], over the channels of a head.
EFL_DEVICE float product(const Heads& h, const float* a, int i, const float* b, int j) {
    float sum = 0;
    for (int c = 0; c < int(h.size); ++c) sum = fmaf(a[c * int(h.places) + i], b[c * int(h.places) + j], sum);
    return sum;
}

EFL_DEVICE float score(const Heads& h, const float* qkv, const float* bias, int image, int head, int query, int key) {
    const float* const keys = qkv + shared_at(h, image, head, 0);
    const float found = float(h.scale) * product(h, keys, key, qkv + query_at(h, image, head), query);
    return bias ? found + bias[bias_at(h, head) + key * int(h.places) + query] : found;
}

// By what the share of a key is multiplied.
EFL_DEVICE float kept(const Heads& h, const Size* state, int image, int head, int query, int key) {
    if (!state) return 1;
    const unsigned places = unsigned(h.places),
                   e = (unsigned(head) * places + unsigned(key)) * places + unsigned(query);
    const Words words = words_of(state, int(h.node), image, e / TILE_VALUES * TILE_BLOCKS + e % TILE_BLOCKS);
    const unsigned k = e % TILE_VALUES / TILE_BLOCKS;
    const unsigned word = k == 0 ? words.word[0] : k == 1 ? words.word[1] : k == 2 ? words.word[2] : words.word[3];
    return word >= unsigned(h.threshold) ? float(h.keep_scale) : 0;
}

// The slope of a share: values[:, key] . dy[:, query], times what the share is multiplied by.
EFL_DEVICE float slope(const Heads& h, const float* qkv, const float* dy, const Size* state, int image, int head,
                       int query, int key) {
    const float* const values = qkv + shared_at(h, image, head, 1);
    return kept(h, state, image, head, query, key) * product(h, values, key, dy + result_at(h, image, head), query);
}

EFL_KERNEL(sdpa_forward, 256) {
    const Heads& h = a.h;
    const int places = int(h.places), size = int(h.size);
    each_position(a.count, [&](int i) {
        const Query q = query_of(h, i);
        const int begin = first_key(h, q.at), end = end_of_keys(h, q.at);
        float top = -INFINITY, total = 0;
        for (int key = begin; key < end; ++key) top = fmaxf(top, score(h, a.qkv, a.bias, q.image, q.head, q.at, key));
        float* const y = a.y + result_at(h, q.image, q.head) + q.at;
        const float* const values = a.qkv + shared_at(h, q.image, q.head, 1);
        for (int c = 0; c < size; ++c) y[c * places] = 0;
        for (int key = begin; key < end; ++key) {
            const float e = expf(score(h, a.qkv, a.bias, q.image, q.head, q.at, key) - top);
            const float share = e * kept(h, a.state, q.image, q.head, q.at, key);
            total += e;
            for (int c = 0; c < size; ++c) y[c * places] = fmaf(share, values[c * places + key], y[c * places]);
        }
        for (int c = 0; c < size; ++c) y[c * places] /= total;
        if (a.lse) a.lse[i] = top + logf(total);
    });
}

// Of each query the sum of shares times their slopes, and the gradient of the query.
EFL_KERNEL(sdpa_queries, 256) {
    const Heads& h = a.h;
    const int places = int(h.places), size = int(h.size), group = int(h.heads) / int(h.kv_heads);
    each_position(a.count, [&](int i) {
        const int needed = i / places % (int(a.needed.count) * group),
                  image = i / places / (int(a.needed.count) * group);
        const int head = id_at(a.needed, needed / group) * group + needed % group, query = i % places;
        const int begin = first_key(h, query), end = end_of_keys(h, query), at = (image * int(h.heads) + head) * places;
        float total = 0;
        for (int key = begin; key < end; ++key)
            total = fmaf(expf(score(h, a.qkv, a.bias, image, head, query, key) - a.lse[at + query]),
                         slope(h, a.qkv, a.dy, a.state, image, head, query, key), total);
        a.totals[at + query] = total;
        float* const dq = a.dqkv + query_at(h, image, head) + query;
        const float* const keys = a.qkv + shared_at(h, image, head, 0);
        for (int c = 0; c < size; ++c) dq[c * places] = 0;
        for (int key = begin; key < end; ++key) {
            const float share = expf(score(h, a.qkv, a.bias, image, head, query, key) - a.lse[at + query]);
            const float sent = share * (slope(h, a.qkv, a.dy, a.state, image, head, query, key) - total);
            for (int c = 0; c < size; ++c)
                dq[c * places] = fmaf(float(h.scale) * sent, keys[c * places + key], dq[c * places]);
        }
    });
}

// The gradients of each key and its value, over the heads of queries that share them.
EFL_KERNEL(sdpa_keys, 256) {
    const Heads& h = a.h;
    const int places = int(h.places), size = int(h.size), group = int(h.heads) / int(h.kv_heads);
    each_position(a.count, [&](int i) {
        const int key = i % places, image = i / places / int(a.needed.count);
        const int first = id_at(a.needed, i / places % int(a.needed.count)) * group;
        float* const dk = a.dqkv + shared_at(h, image, first, 0) + key;
        float* const dv = a.dqkv + shared_at(h, image, first, 1) + key;
        for (int c = 0; c < size; ++c) dk[c * places] = dv[c * places] = 0;
        for (int head = first; head < first + group; ++head) {
            const float *const queries = a.qkv + query_at(h, image, head), *const dy = a.dy + result_at(h, image, head);
            for (int query = h.is_causal ? key : 0; query < places; ++query) {
                if (key < first_key(h, query)) break;
                const int at = (image * int(h.heads) + head) * places + query;
                const float share = expf(score(h, a.qkv, a.bias, image, head, query, key) - a.lse[at]);
                const float part = share * kept(h, a.state, image, head, query, key);
                const float sent =
                    float(h.scale) * share * (slope(h, a.qkv, a.dy, a.state, image, head, query, key) - a.totals[at]);
                for (int c = 0; c < size; ++c) {
                    dk[c * places] = fmaf(sent, queries[c * places + query], dk[c * places]);
                    dv[c * places] = fmaf(part, dy[c * places + query], dv[c * places]);
                }
            }
        }
    });
}

// The gradient of each value of a bias, over the batch and the heads that share it.
EFL_KERNEL(sdpa_bias, 256) {
    const Heads& h = a.h;
    const int places = int(h.places), shared = int(h.heads) / int(h.masks);
    each_position(a.count, [&](int i) {
        const int query = i % places, key = i / places % places, first = i / places / places * shared;
        float sum = 0;
        const bool counts = key >= first_key(h, query) && key < end_of_keys(h, query);
        for (int image = 0; counts && image < int(a.batch); ++image)
            for (int head = first; head < first + shared; ++head) {
                const int at = (image * int(h.heads) + head) * places + query;
                const float share = expf(score(h, a.qkv, a.bias, image, head, query, key) - a.lse[at]);
                sum += share * (slope(h, a.qkv, a.dy, a.state, image, head, query, key) - a.totals[at]);
            }
        a.dbias[i] = sum;
    });
}

}  // namespace sdpa
