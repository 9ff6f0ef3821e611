// The loss: checks every argument, then calls the table.
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
