// What a rectifier computes of a vector: y of x, and dx of dy where the bits say x > 0; passed: dx from x itself.
struct ReLU {
    inline vf value(vf x) const { return at_least(x, 0.0f); }
    inline vf passed(vf dy, vf x) const { return keep_positive(dy, x); }
    inline unsigned bits(vf x) const { return positive_bits(x); }
    inline vf grad(vf dy, unsigned on) const { return keep_bits(dy, on); }
};

// Its backward pass is ReLU's: the bits say where the slope is 1.
struct ReLU6 {
    inline vf value(vf x) const { return at_most(at_least(x, 0.0f), 6.0f); }
    inline vf passed(vf dy, vf x) const { return keep_between(dy, x, 6.0f); }
    inline unsigned bits(vf x) const { return positive_bits(x) & positive_bits(sub(set1(6.0f), x)); }
};
