// Arguments of the steps of SGD and Adam, and of the norm that clips them.
#include <cstring>
#include <stdexcept>

#include "call.h"

namespace efl {
namespace {

Call sum_squares(Args& a) {
    const View x = a.f32("x"), total = a.typed<double>("total", Access::out, "float64");
    a.expect_shape(total, {1});
    return [=] { return efl_sum_squares_f32(x.in(), x.size(), total.as<double>()); };
}

Call clip_scale(Args& a) {
    const View total = a.typed<double>("total", Access::in, "float64");
    const float max_norm = a.real("max_norm");
    if (!(max_norm >= 0)) a.refuse("max_norm", "value " + std::to_string(max_norm), "a number >= 0");
    const View scale = a.f32("scale", Access::out);
    a.expect_shape(total, {1});
    a.expect_shape(scale, {1});
    return [=] { return efl_clip_scale(*total.as<double>(), double(max_norm), scale.out()); };
}

// An array that a coefficient in hyper multiplies; hyper may change between runs.
void need(const char* op, const View& view, float coefficient, const char* name) {
    if (coefficient != 0 && !view.data)
        throw std::invalid_argument(std::string(op) + ": " + view.name +
                                    " has value None; expected an array, because " + name + " is " +
                                    std::to_string(coefficient));
}

// hyper is read at every run, so that a recorded program follows a learning-rate schedule.
Call sgd(Args& a) {
    const View w = a.f32("w", Access::out), grad = a.f32("grad"), hyper = a.f32("hyper");
    const efl_index rows = a.index("rows"), cols = a.index("cols");
    const View scale = a.f32_or_none("scale"), velocity = a.f32_or_none("velocity", Access::out),
               centre = a.f32_or_none("centre"), linear = a.f32_or_none("linear");
    a.expect_dims(w, 3, 3);
    a.expect_shape(hyper, {4});
    a.expect_shape(scale, {1});
    for (const View* block : {&grad, &velocity, &centre, &linear}) a.expect_size(*block, block_size(w, rows, cols));
    return [=] {
        efl_sgd values;
        static_assert(sizeof values == 4 * sizeof(float), "hyper holds the four fields of efl_sgd");
        std::memcpy(&values, hyper.data, sizeof values);
        need("sgd", velocity, values.momentum, "momentum");
        need("sgd", centre, values.pull, "pull");
        return efl_sgd_f32(w.out(), w.shape[0], w.shape[1], w.shape[2], rows, cols, grad.in(), &values, scale.in(),
                           velocity.out(), centre.in(), linear.in());
    };
}

Call nesterov(Args& a) {
    const View w = a.f32("w", Access::out), grad = a.f32("grad"), hyper = a.f32("hyper");
    const efl_index rows = a.index("rows"), cols = a.index("cols");
    const View velocity = a.f32("velocity", Access::out), scale = a.f32_or_none("scale"),
               centre = a.f32_or_none("centre"), linear = a.f32_or_none("linear");
    a.expect_dims(w, 3, 3);
    a.expect_shape(hyper, {4});
    a.expect_shape(scale, {1});
    for (const View* block : {&grad, &velocity, &centre, &linear}) a.expect_size(*block, block_size(w, rows, cols));
    return [=] {
        efl_sgd values;
        std::memcpy(&values, hyper.data, sizeof values);
        need("nesterov", centre, values.pull, "pull");
        return efl_nesterov_f32(w.out(), w.shape[0], w.shape[1], w.shape[2], rows, cols, grad.in(), &values,
                                velocity.out(), scale.in(), centre.in(), linear.in());
    };
}

// settings is read at every run, like hyper.
Call begin_adam(Args& a) {
    const View settings = a.typed<double>("settings", Access::in, "float64"),
               steps = a.typed<efl_int64>("steps", Access::out, "int64"), rates = a.f32("rates", Access::out);
    static_assert(sizeof(efl_adam) == 7 * sizeof(double) && sizeof(efl_adam_rates) == 9 * sizeof(float));
    a.expect_shape(settings, {7});
    a.expect_shape(steps, {1});
    a.expect_shape(rates, {9});
    return [=] {
        efl_adam values;
        efl_adam_rates found;
        std::memcpy(&values, settings.data, sizeof values);
        const efl_status status = efl_begin_adam(&values, steps.as<efl_int64>(), &found);
        if (status == EFL_OK) std::memcpy(rates.data, &found, sizeof found);
        return status;
    };
}

Call adam(Args& a) {
    const View w = a.f32("w", Access::out), grad = a.f32("grad"), rates = a.f32("rates");
    const efl_index rows = a.index("rows"), cols = a.index("cols");
    const View mean = a.f32("mean", Access::out), square = a.f32("square", Access::out), scale = a.f32_or_none("scale"),
               centre = a.f32_or_none("centre"), linear = a.f32_or_none("linear");
    a.expect_dims(w, 3, 3);
    a.expect_shape(rates, {9});
    a.expect_shape(scale, {1});
    for (const View* block : {&grad, &mean, &square, &centre, &linear})
        a.expect_size(*block, block_size(w, rows, cols));
    return [=] {
        efl_adam_rates values;
        std::memcpy(&values, rates.data, sizeof values);
        need("adam", centre, values.pull, "pull");
        return efl_adam_f32(w.out(), w.shape[0], w.shape[1], w.shape[2], rows, cols, grad.in(), &values, mean.out(),
                            square.out(), scale.in(), centre.in(), linear.in());
    };
}

}  // namespace

const std::vector<Op> update_ops = {
    {.name = "sum_squares", .make = sum_squares},
    {.name = "clip_scale", .make = clip_scale},
    {.name = "sgd", .make = sgd},
    {.name = "nesterov", .make = nesterov},
    {.name = "begin_adam", .make = begin_adam},
    {.name = "adam", .make = adam},
};

}  // namespace efl
