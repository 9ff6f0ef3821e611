// Arguments of the losses.
#include "call.h"

namespace efl {
namespace {

Call softmax_xent(Args& a) {
    const View logits = a.f32("logits"), labels = a.ids("labels"), dlogits = a.f32_or_none("dlogits", Access::out),
               loss = a.typed<double>("loss", Access::out, "float64"),
               correct = a.typed<efl_int64>("correct", Access::out, "int64");
    a.expect_dims(logits, 2, 2);
    a.expect_shape(labels, {logits.shape[0]});
    a.expect_shape(dlogits, logits.shape);
    a.expect_shape(loss, {1});
    a.expect_shape(correct, {1});
    return [=] {
        return efl_softmax_xent_f32(logits.in(), labels.as<efl_int32>(), logits.shape[0], logits.shape[1],
                                    dlogits.out(), loss.as<double>(), correct.as<efl_int64>());
    };
}

Call cross_entropy(Args& a) {
    const View logits = a.f32("logits"), labels = a.ids("labels"), weight = a.f32_or_none("weight");
    const float smoothing = a.real("smoothing");
    if (!(smoothing >= 0 && smoothing <= 1)) a.refuse("smoothing", "value " + std::to_string(smoothing), "0 to 1");
    const View dlogits = a.f32_or_none("dlogits", Access::out), loss = a.typed<double>("loss", Access::out, "float64"),
               correct = a.typed<efl_int64>("correct", Access::out, "int64");
    a.expect_dims(logits, 2, 2);
    a.expect_shape(labels, {logits.shape[0]});
    a.expect_shape(weight, {logits.shape[1]});
    a.expect_shape(dlogits, logits.shape);
    a.expect_shape(loss, {1});
    a.expect_shape(correct, {1});
    return [=] {
        return efl_cross_entropy_f32(logits.in(), labels.as<efl_int32>(), weight.in(), logits.shape[0], logits.shape[1],
                                     smoothing, dlogits.out(), loss.as<double>(), correct.as<efl_int64>());
    };
}

Call binary_cross_entropy(Args& a) {
    const View logits = a.f32("logits"), targets = a.f32("targets"), pos_weight = a.f32_or_none("pos_weight"),
               dlogits = a.f32_or_none("dlogits", Access::out), loss = a.typed<double>("loss", Access::out, "float64"),
               correct = a.typed<efl_int64>("correct", Access::out, "int64");
    a.expect_dims(logits, 2, 2);
    a.expect_shape(targets, logits.shape);
    a.expect_shape(pos_weight, {logits.shape[1]});
    a.expect_shape(dlogits, logits.shape);
    a.expect_shape(loss, {1});
    a.expect_shape(correct, {1});
    return [=] {
        return efl_binary_cross_entropy_f32(logits.in(), targets.in(), pos_weight.in(), logits.shape[0],
                                            logits.shape[1], dlogits.out(), loss.as<double>(), correct.as<efl_int64>());
    };
}

// Of squared_error and huber, after y and targets.
struct Sums {
    View dy, loss;

    Sums(Args& a, const View& y, const View& targets)
        : dy(a.f32_or_none("dy", Access::out)), loss(a.typed<double>("loss", Access::out, "float64")) {
        a.expect_dims(y, 2, 2);
        a.expect_shape(targets, y.shape);
        a.expect_shape(dy, y.shape);
        a.expect_shape(loss, {1});
    }
};

Call squared_error(Args& a) {
    const View y = a.f32("y"), targets = a.f32("targets");
    const Sums sums(a, y, targets);
    return [=] {
        return efl_squared_error_f32(y.in(), targets.in(), y.shape[0], y.shape[1], sums.dy.out(),
                                     sums.loss.as<double>());
    };
}

Call huber(Args& a) {
    const View y = a.f32("y"), targets = a.f32("targets");
    const float delta = a.real("delta");
    if (!(delta > 0)) a.refuse("delta", "value " + std::to_string(delta), "a number above 0");
    const Sums sums(a, y, targets);
    return [=] {
        return efl_huber_f32(y.in(), targets.in(), y.shape[0], y.shape[1], delta, sums.dy.out(),
                             sums.loss.as<double>());
    };
}

}  // namespace

const std::vector<Op> loss_ops = {
    {.name = "softmax_xent", .make = softmax_xent},
    {.name = "cross_entropy", .make = cross_entropy},
    {.name = "binary_cross_entropy", .make = binary_cross_entropy},
    {.name = "squared_error", .make = squared_error},
    {.name = "huber", .make = huber},
};

}  // namespace efl
