// The gradient of connectionist temporal classification.
#include "ops/table/gradient.h"

namespace fb {

GRAD("_ctc_loss", IN(0) | IN(1) | RESULT(0) | RESULT(1)) {
    c.set(0, call<"_ctc_loss_backward">(c.g(), c.in(0), c.in(1), c.out(0), c.out(1), c.dims(2), c.dims(3), c.integer(4),
                                        c.flag(5)));
}
GRAD("_ctc_loss_backward") {
    fail(ErrorKind::NotImplemented, "ctc_loss has no second derivative; differentiate it once (create_graph=False)");
}

}  // namespace fb
