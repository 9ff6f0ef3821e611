// Normalisation as a line through each value, z = gain * (x - mean) + bias, and the line of its gradient, by vectors.

static inline float gain_of(const Affine& f) { return f.weight * f.inv_std; }

// z of a vector of x.
struct Line {
    vf mean, gain, bias;
    explicit Line(const Affine& f) : mean(set1(f.mean)), gain(set1(gain_of(f))), bias(set1(f.bias)) {}
    explicit Line(const ChannelLanes& f) : mean(f.mean), gain(mul(f.weight, f.inv_std)), bias(f.bias) {}
    vf centred(vf x) const { return sub(x, mean); }
    vf at(vf d) const { return fma(gain, d, bias); }
};

// dx of a vector: what its xhat gives, and dz. slope applies to x - mean.
struct GradientLine {
    vf gain, offset, slope;
    GradientLine(const Affine& f, const AffineGradient& k)
        : gain(set1(k.gain)), offset(set1(-k.offset)), slope(set1(-k.slope * f.inv_std)) {}
    vf at(vf d) const { return fma(slope, d, offset); }
    vf at(vf d, vf dz) const { return fma(gain, dz, at(d)); }
};
