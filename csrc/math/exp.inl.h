// The exponential function on words, for the arguments that a softmax needs.
//
// e^v = 2^n e^r with n = round(v / ln 2) and r = v - n ln 2 in two parts (Cody and Waite), |r| <= ln 2 / 2; e^r by its
// Taylor polynomial of degree 7, whose remainder there is below 2^-27. At most 2 ulp from the true value (tests compare
// with float64).

// e^v for v <= 0. Below -87.3, where float32 has no normal numbers left, 0; NaN stays NaN.
static inline vf exp_nonpositive(vf v) {
    const vf lowest = set1(-87.3f), rounder = set1(12582912.0f);  // 1.5 * 2^23: adding it rounds to a whole number
    const vf x = max(v, lowest);
    const vf n = sub(add(mul(x, set1(1.44269504f)), rounder), rounder);
    const vf r = fma(n, set1(2.12194440e-4f), fma(n, set1(-0.693359375f), x));
    vf p = set1(1.0f / 5040);
    p = fma(p, r, set1(1.0f / 720));
    p = fma(p, r, set1(1.0f / 120));
    p = fma(p, r, set1(1.0f / 24));
    p = fma(p, r, set1(1.0f / 6));
    p = fma(p, r, set1(0.5f));
    p = fma(mul(p, r), r, r);
    return if_above(v, lowest, mul(add(p, set1(1.0f)), pow2(n)), zero());
}
