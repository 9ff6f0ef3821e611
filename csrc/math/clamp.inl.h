// A vector held within bounds that are numbers. NaN stays NaN, and an instruction set that has this (EFL_CLAMPS) may
// make +0 of -0.

#if !defined(EFL_CLAMPS)
static inline vf at_least(vf v, float low) { return max(v, set1(low)); }
static inline vf at_most(vf v, float high) { return min(v, set1(high)); }
// v where 0 < x < high, else 0.
static inline vf keep_between(vf v, vf x, float high) { return keep_positive(keep_positive(v, x), sub(set1(high), x)); }
#endif
