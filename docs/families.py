"""Which page of the reference describes a function: its family, by its name or by the file that defines it.

A new op in an existing folder has its family without any change here. tests/repo/test_site.py says when one has none.
"""

import functools
import inspect
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]

# page, title, what it holds, names, sources. The names of all families are tried first, then the sources, in this order.
FAMILIES = [
    (
        "creation", "Creation", "Tensors from sizes, values, and the memory of other libraries.",
        r"scalar_tensor|complex|polar|range|tril_indices|triu_indices|sparse_\w+_tensor|vander|(as_)?tensor",
        r"shape/create|_ops/creation|_tensor/(exchange|methods)|sparse/",
    ),
    (
        "joining", "Joining and splitting", "Concatenating and stacking tensors, and splitting them into parts.",
        (
            r"(unsafe_)?(split|chunk)(_with_sizes)?|\w*stack|[dhv]split|tensor_split|unbind|block_diag|"
            r"cartesian_prod|meshgrid|combinations"
        ),
        r"shape/join|shape_split",
    ),
    (
        "signal", "Signals and windows", "Windows, short-time Fourier transforms, numerical gradients.",
        r"\w+_window|i?stft|gradient",
        r"_ops/signal",
    ),
    (
        "shape", "Shapes and views", "Views, copies, and the order of elements.",
        (
            r"(?!index_)\w+_copy|atleast_\dd|broadcast_\w+|resize_as_|detach_?|fill_?|zero_?|clone|resolve_\w+|"
            r"unravel_index"
        ),
        r"ops/shape/|_ops/(shaping|copies)",
    ),
    (
        "comparison", "Comparison and logic", "Comparisons, logical and bitwise ops, tests of elements.",
        (
            r"(eq|ne|lt|le|gt|ge|greater|less|not_equal)(_equal)?_?|(logical|bitwise)_\w+|is(close|in|nan|inf|"
            r"finite|posinf|neginf|real)_?|allclose|equal|signbit_?|maximum|minimum|fmax|fmin"
        ),
        r"$^",
    ),
    (
        "special", "Special functions", "Gamma, error and Bessel functions, and related ones.",
        r"i0_?|erfinv_?|erfc?_?|logit_?|sinc_?|xlogy_?",
        r"(pointwise|formulas)/special",
    ),
    (
        "elementwise", "Elementwise functions", "Functions applied to each element of one tensor.",
        r"$^",
        r"(pointwise|formulas)/(unary|convert|rounding|activation)",
    ),
    (
        "arithmetic", "Arithmetic", "Elementwise functions of several tensors, with broadcasting.",
        r"$^",
        r"(pointwise|formulas)/",
    ),
    (
        "random", "Random numbers", "Sampling, seeds and generator states.",
        (
            r"rand(int|n|perm)?(_like)?|bernoulli|binomial|multinomial|normal|poisson|manual_seed|seed|"
            r"initial_seed|[gs]et_rng_state"
        ),
        r"ops/random/",
    ),
    (
        "neural", "Functions for networks", "The op-level forms of layers, activations, normalization, pooling and losses.",
        (
            r"(native_)?(batch|group|instance|layer|rms)_norm|conv\w*|\w*pool\d?d\w*|dropout_?|relu_?|softmax|"
            r"log_softmax|(binary_)?cross_entropy|constant_pad_nd"
        ),
        r"ops/nn/|flambeau/nn/",
    ),
    (
        "reductions", "Reductions", "Sums, means, extremes, norms and other reductions.",
        r"\w*norm(_except_dim)?|logsumexp|hash_tensor",
        r"order/reduce|_ops/reductions",
    ),
    (
        "scans", "Cumulative sums and products", "Cumulative results along a dimension.",
        r"cum\w+|logcumsumexp",
        r"order/scan",
    ),
    (
        "sorting", "Sorting, searching, counting", "Order, unique values, histograms and quantiles.",
        r"bincount|hist\w+",
        r"ops/order/|_ops/sorting",
    ),
    (
        "indexing", "Indexing", "Reading and writing by index or mask.",
        r"$^",
        r"ops/index/",
    ),
    (
        "linear", "Linear algebra", "Products of vectors and matrices, decompositions. More are in `linalg`.",
        r"einsum",
        r"ops/linear/|_ops/(linalg|products|_lobpcg|gradients)",
    ),
    (
        "memory", "Memory", "Statistics and control of the caching allocator.",
        r"$^",
        r"_settings/memory",
    ),
    (
        "gradients", "Gradient and autocast modes", "Recording of gradients, anomaly detection and mixed precision.",
        r"vmap|is_(anomaly|autocast|grad|inference_mode)\w*",
        r"flambeau/(amp|autograd)/",
    ),
    (
        "files", "Files and small weights", "Saving, loading, and weights stored as small integers.",
        r"$^",
        r"serialization|quantization",
    ),
    (
        "settings", "Types and settings", "Type queries, defaults, printing, threads, determinism.",
        r"is_\w+|compile|typename|result_type|can_cast|promote_types",
        r"_settings/|_tensor/(legacy|printing|layouts)|flambeau/_C",
    ),
]  # fmt: skip


@functools.cache
def op_sources():
    """{op: the file that registers it}, of all registrations in csrc and in Python."""
    found = {}
    # A table of formulas may have a row for an op that a .cpp file registers.
    tables = sorted((ROOT / "csrc").rglob("*.def"))
    for path in [*sorted((ROOT / "csrc").rglob("*.cpp")), *sorted((ROOT / "src/flambeau").rglob("*.py")), *tables]:
        text = path.read_text()
        names = re.findall(r'\(\s*"([\w.]+)\((?:\*|\)|[A-Z]|int|float|bool|str|dtype|any|device)', text)
        if path.suffix == ".def":
            names += re.findall(r"^[A-Z_]+\((\w+),", text, re.M)
        for name in names:
            found.setdefault(name, str(path.relative_to(ROOT)))
    return found


def source(name, value):
    """The file that defines a function: of an op, its registration, otherwise its Python module."""
    code = getattr(inspect.unwrap(value), "__code__", None)
    if code is not None and "/flambeau/" in code.co_filename:
        return "src/flambeau/" + code.co_filename.rpartition("/flambeau/")[2]
    base = getattr(value, "signatures", ("",))[0].partition("(")[0] or name
    found = op_sources()
    place = found.get(base) or found.get(f"special.{base}")
    return place or "src/" + str(getattr(value, "__module__", "")).replace(".", "/")


def family(name, value):
    """The page of a function of the package, None if no rule knows it."""
    base = getattr(value, "signatures", ("",))[0].partition("(")[0] or name
    for page, _, _, names, _ in FAMILIES:
        if re.fullmatch(names, base):
            return page
    place = source(name, value)
    return next((page for page, _, _, _, sources in FAMILIES if re.search(sources, place)), None)


# nn.functional has its own families, one per file. Ops that are made in C++ go by their names.
LAYERS = {
    "activation": "Activations", "attention": "Attention", "convolution": "Convolutions", "pooling": "Pooling",
    "normalization": "Normalization", "dropout": "Dropout", "linear": "Linear maps, embeddings, distances",
    "loss": "Losses", "vision": "Images and padding",
}  # fmt: skip
_LAYER_NAMES = [(r"conv\w+", "convolution"), (r"\w*pool\d?d\w*", "pooling"), (r"\w+shuffle", "vision"), (r"pdist", "linear")]
_LAYER_FILES = {"classification": "loss", "ctc": "loss", "margin": "loss", "resample": "vision", "spatial": "vision"}


def layer_family(name, value):
    """The page of a function of nn.functional, None if no rule knows it."""
    named = next((page for names, page in _LAYER_NAMES if re.fullmatch(names, name)), None)
    stem = source(name, value).rpartition("/")[2].removesuffix(".py").lstrip("_")
    stem = _LAYER_FILES.get(stem, stem)
    return named or (stem if stem in LAYERS else None)
