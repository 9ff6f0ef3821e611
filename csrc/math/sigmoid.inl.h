// Functions of words made of the exponential: sigmoid, tanh, the normal distribution function, log(1 + e^v).
//
// Each reads e^-|v| and takes the other half by symmetry, so nothing overflows. The polynomials are least-squares fits
// in float64 of our own, with the largest relative error in brackets; float32's roundings come on top.

static inline vf negated(vf v) { return sub(zero(), v); }
static inline vf absolute(vf v) { return max(v, negated(v)); }
static inline vf at_most(vf v, float high) {
    return if_above(negated(v), set1(-high), v, set1(high));
}  // NaN stays NaN

// 1 / (1 + e^-v), of e = e^-|v|.
static inline vf sigmoid_of(vf v, vf e) { return div(if_above(v, zero(), set1(1.0f), e), add(set1(1.0f), e)); }
static inline vf sigmoid(vf v) { return sigmoid_of(v, exp_nonpositive(negated(absolute(v)))); }

// x + x^3 p(x^2) below .6 (9e-8 of the second term), (1 - e) / (1 + e) with e = e^-2|x| above.
static inline vf tanh(vf x) {
    const vf a = absolute(x), q = mul(x, x);
    vf p = set1(-0.00626930268f);
    p = fma(p, q, set1(0.0211110908f));
    p = fma(p, q, set1(-0.0538739785f));
    p = fma(p, q, set1(0.133329156f));
    p = fma(p, q, set1(-0.333333303f));
    const vf e = exp_nonpositive(mul(a, set1(-2.0f))), one = set1(1.0f);
    const vf large = div(sub(one, e), add(one, e));
    return if_above(a, set1(0.6f), if_above(x, zero(), large, negated(large)), fma(mul(x, q), p, x));
}

// The normal distribution function at x, of e = e^(-x^2 / 2): erfc(z) = e^(-z^2) t g(t), z = |x| / sqrt 2 and t = 1 /
// (1 + z / 2), is twice what lies beyond |x| (4e-8).
static inline vf normal_of(vf x, vf e) {
    const vf t = div(set1(1.0f), fma(absolute(x), set1(0.353553391f), set1(1.0f)));
    vf g = set1(-0.0588914241f);
    g = fma(g, t, set1(0.283705026f));
    g = fma(g, t, set1(-0.485389798f));
    g = fma(g, t, set1(0.27598481f));
    g = fma(g, t, set1(-0.0251820275f));
    g = fma(g, t, set1(0.202071561f));
    g = fma(g, t, set1(0.243260601f));
    g = fma(g, t, set1(0.282353536f));
    g = fma(g, t, set1(0.282087674f));
    const vf beyond = mul(mul(mul(e, t), g), set1(0.5f));
    return if_above(x, zero(), sub(set1(1.0f), beyond), beyond);
}
static inline vf half_square(vf x) { return exp_nonpositive(mul(mul(x, x), set1(-0.5f))); }

// log(1 + e^v) = max(v, 0) + log(1 + e), e = e^-|v|; log(1 + e) = s p(s^2) with s = e / (2 + e) (4e-9).
static inline vf log1p_exp(vf v) {
    const vf e = exp_nonpositive(negated(absolute(v))), s = div(e, add(set1(2.0f), e)), q = mul(s, s);
    vf p = set1(0.281783107f);
    p = fma(p, q, set1(0.279606081f));
    p = fma(p, q, set1(0.400249099f));
    p = fma(p, q, set1(0.666663147f));
    p = fma(p, q, set1(2.0f));
    return fma(s, p, if_above(v, zero(), v, zero()));
}
