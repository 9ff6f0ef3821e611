// The losses: checks every argument, then calls the table.
#include "../core/check.h"
#include "../core/dispatch.h"

using namespace efl;

efl_status efl_softmax_xent_f32(const float* logits, const efl_int32* labels, efl_int64 batch, efl_int64 classes,
                                float* dlogits, double* loss, efl_int64* correct) {
    EFL_CHECK(extents({batch, classes}));
    EFL_CHECK(pointers({logits, labels, loss, correct}));
    EFL_CHECK(unsorted_ids(labels, batch, classes));
    return table().softmax_xent_f32(logits, labels, batch, classes, dlogits, loss, correct);
}

efl_status efl_cross_entropy_f32(const float* logits, const efl_int32* labels, const float* weight, efl_int64 batch,
                                 efl_int64 classes, float smoothing, float* dlogits, double* loss, efl_int64* correct) {
    EFL_CHECK(extents({batch, classes}));
    EFL_CHECK(pointers({logits, labels, loss, correct}));
    EFL_CHECK(unsorted_ids(labels, batch, classes));
    if (!(smoothing >= 0 && smoothing <= 1)) return EFL_BAD_ARGUMENT;
    return table().cross_entropy_f32(logits, labels, weight, batch, classes, smoothing, dlogits, loss, correct);
}

efl_status efl_binary_cross_entropy_f32(const float* logits, const float* targets, const float* pos_weight,
                                        efl_int64 batch, efl_int64 outputs, float* dlogits, double* loss,
                                        efl_int64* correct) {
    EFL_CHECK(extents({batch, outputs}));
    EFL_CHECK(pointers({logits, targets, loss, correct}));
    return outputs
               ? table().binary_cross_entropy_f32(logits, targets, pos_weight, batch, outputs, dlogits, loss, correct)
               : EFL_OK;
}

efl_status efl_squared_error_f32(const float* y, const float* targets, efl_int64 batch, efl_int64 outputs, float* dy,
                                 double* loss) {
    EFL_CHECK(extents({batch, outputs}));
    EFL_CHECK(pointers({y, targets, loss}));
    return outputs ? table().squared_error_f32(y, targets, batch, outputs, dy, loss) : EFL_OK;
}

efl_status efl_huber_f32(const float* y, const float* targets, efl_int64 batch, efl_int64 outputs, float delta,
                         float* dy, double* loss) {
    EFL_CHECK(extents({batch, outputs}));
    EFL_CHECK(pointers({y, targets, loss}));
    if (!(delta > 0)) return EFL_BAD_ARGUMENT;
    return outputs ? table().huber_f32(y, targets, batch, outputs, delta, dy, loss) : EFL_OK;
}
