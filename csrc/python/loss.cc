// Arguments of the loss.
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

}  // namespace

const std::vector<Op> loss_ops = {
    {.name = "softmax_xent", .make = softmax_xent},
};

}  // namespace efl
