// Functions of vectors made of the exponential: sigmoid, tanh, the normal distribution function, log(1 + e^v).
//
// Each reads e^-|v| and takes the other half by symmetry, so nothing overflows. The polynomials are least-squares fits
// in float64 of our own, with the largest relative error in brackets; float32's roundings come on top.

static inline vf negated(vf v) { return sub(zero(), v); }
static inline vf absolute(vf v) { return max(v, negated(v)); }

// 1 / (1 + e^-v), of e = e^-|v|.
static inline vf sigmoid_of(vf v, vf e) { return div(if_up_to(v, zero(), e, set1(1.0f)), add(set1(1.0f), e)); }
static inline vf sigmoid(vf v) { return sigmoid_of(v, exp_nonpositive(minus_magnitude(v))); }

// x p(x^2) / q(x^2) (1.2e-8), where |x| is below 8.5; beyond, tanh is 1 in float32.
static inline vf tanh(vf x) {
    const vf v = at_most(max(x, set1(-8.5f)), 8.5f), s = mul(v, v);
    vf p = set1(1.42690846e-8f), q = set1(8.1450662e-7f);
    p = fma(p, s, set1(2.12509458e-5f)), q = fma(q, s, set1(3.34885524e-4f));
    p = fma(p, s, set1(0.00353402109f)), q = fma(q, s, set1(0.0260227285f));
    p = fma(p, s, set1(0.134132415f)), q = fma(q, s, set1(0.467465639f));
    p = fma(p, s, set1(1.0f)), q = fma(q, s, set1(1.0f));
    return at_most(max(div(mul(v, p), q), set1(-1.0f)), 1.0f);
}

// The normal distribution function at x, of e = e^(-x^2 / 2). What lies beyond |x| is e t g(t), t = 1 / (1 + z / 2) and
// z = |x| / sqrt 2 (4e-7).
static inline vf normal_of(vf x, vf e) {
    const vf t = div(set1(1.0f), fma(minus_magnitude(x), set1(-0.353553391f), set1(1.0f)));
    vf g = set1(0.0476507357f);
    g = fma(g, t, set1(-0.191028478f));
    g = fma(g, t, set1(0.21266459f));
    g = fma(g, t, set1(0.00583487014f));
    g = fma(g, t, set1(0.145842918f));
    g = fma(g, t, set1(0.137792828f));
    g = fma(g, t, set1(0.141242713f));
    const vf beyond = mul(mul(e, t), g);
    return if_up_to(x, zero(), beyond, sub(set1(1.0f), beyond));
}
static inline vf half_square(vf x) { return exp_nonpositive(mul(mul(x, x), set1(-0.5f))); }

// log(1 + e^v) = max(v, 0) + log(1 + e), e = e^-|v|; log(1 + e) = s p(s^2) with s = e / (2 + e) (4e-9).
static inline vf log1p_exp(vf v) {
    const vf e = exp_nonpositive(minus_magnitude(v)), s = div(e, add(set1(2.0f), e)), q = mul(s, s);
    vf p = set1(0.281783107f);
    p = fma(p, q, set1(0.279606081f));
    p = fma(p, q, set1(0.400249099f));
    p = fma(p, q, set1(0.666663147f));
    p = fma(p, q, set1(2.0f));
    return fma(s, p, if_above(v, zero(), v, zero()));
}
