// The gradient of squared errors.
#include "ops/table/gradient.h"

namespace fb {

GRAD("_squared_error", IN(0) | IN(1), IN(0) | IN(1)) {
    Var slope = call<"_squared_error_gradient">(c.g(), c.in(0), c.in(1));
    if (c.needs(0)) c.set(0, slope);
    if (c.needs(1)) c.set(1, -slope);
}
GRAD("_squared_error_gradient", IN(1) | IN(2), IN(0), IN(0)) {
    if (c.needs(0)) c.set(0, (c.in(1) - c.in(2)) * (c.g() * 2));
    if (!c.needs(1) && !c.needs(2)) return;
    Var slope = c.in(0) * (c.g() * 2);
    if (c.needs(1)) c.set(1, slope);
    if (c.needs(2)) c.set(2, -slope);
}

}  // namespace fb
