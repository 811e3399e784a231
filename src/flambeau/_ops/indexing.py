"""index_put with gaps: `None` among the indices stands for a whole dimension."""

import flambeau as fb
from flambeau._registry.composite import composite


def _without_gaps(input, indices, values):
    """A view of the input with its indexed dimensions first, index tensors for them, and the matching values."""
    named, vectors, dim = [], [], 0
    for index in indices:
        parts = [None] if index is None else [index]
        if isinstance(index, fb.Tensor) and index.dtype in (fb.bool, fb.uint8):
            parts = index.nonzero(as_tuple=True)
        for part in parts:
            if part is not None:
                named.append(dim)
                vectors.append(part)
            dim += 1
    if dim > input.dim():
        raise IndexError(f"index_put: too many indices for tensor of dimension {input.dim()}: got {dim}")
    rest = [d for d in range(input.dim()) if d not in named]
    picked = fb.broadcast_shapes(*(v.shape for v in vectors))
    adjacent = named == list(range(named[0], named[0] + len(named)))
    before = [input.shape[d] for d in rest if adjacent and d < named[0]]
    after = [input.shape[d] for d in rest][len(before) :]
    shown = values.broadcast_to((*before, *picked, *after))
    first = len(before)
    shown = shown.movedim(tuple(range(first, first + len(picked))), tuple(range(len(picked))))
    return input.permute(*named, *rest), vectors, shown


@composite(
    "index_put(Tensor input, any indices, Tensor values, bool accumulate=False) -> Tensor", method=True, inplace=True
)
def index_put(input, indices, values, accumulate):
    # The core documents the form without None.
    for index in indices:
        if index is not None and not isinstance(index, fb.Tensor):
            raise TypeError(f"index_put: indices must be tensors or None, got {type(index).__name__}")
    result = input.clone()
    if all(index is None for index in indices):
        return result.add_(values) if accumulate else result.copy_(values)
    target, vectors, shown = _without_gaps(result, indices, values)
    target.index_put_(vectors, shown, accumulate)
    return result
