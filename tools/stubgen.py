"""Writes the type stubs: `python tools/stubgen.py` renders the op table as `__init__.pyi` and its neighbours.

Every op has signature strings such as

    sum(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor

from which its Python forms (function, method, in-place, `out=`, NumPy's keywords) are typed. What is not an op (classes
and settings) is typed by hand in `stub_parts.py`.
"""

import dataclasses
import inspect
import json
import keyword
import re
from pathlib import Path

import stub_parts

import flambeau as fb
from flambeau import _C
from flambeau._registry.signatures import Parameter, parse_signature

# Inside stubs, `float`, `dtype` and others are names of dtypes, methods or properties; types go by aliases.
_TYPES = {
    "Tensor": "Tensor",
    "Operand": "_Operand",
    "Scalar": "_Number",
    "int": "_int",
    "float": "_float",
    "bool": "_bool",
    "str": "_str",
    "dtype": "_dtype",
    "device": "_DeviceLike",
    "layout": "_layout",
    "memory_format": "_memory_format",
    "Generator": "Generator",
    "any": "Any",
}
_RETURNS = {**_TYPES, "Scalar": "Any", "device": "_device", "Tensor[]": "tuple[Tensor, ...]", "list": "list[Tensor]"}
_WIDTH = 120
_OUT = _C.op_flags["OUT"]
_LITERAL = re.compile(r"None|True|False|-?\d+(\.\d*)?(e-?\d+)?|'[^']*'|\"[^\"]*\"")


# ---- rendering ------------------------------------------------------------------------------------------------------


def python_type(kind):
    """The annotation of an argument type: "int[]?" becomes `_int | Sequence[_int] | None`."""
    if kind.endswith("?"):
        inner = python_type(kind[:-1])
        return inner if inner == "Any" else f"{inner} | None"
    if kind.endswith("[]"):
        item = python_type(kind[:-2])
        # A list of numbers may be a single number; a list of tensors may not be a single tensor.
        return f"Sequence[{item}]" if kind == "Tensor[]" else f"{item} | Sequence[{item}]"
    return _TYPES[kind]


def _return_type(returns, results):
    if isinstance(returns, str):
        if returns in _RETURNS or returns == "None":
            return _RETURNS.get(returns, "None")
        return f"{_return_type(returns[:-1], results)} | None" if returns.endswith("?") else python_type(returns)
    if any(len(field) < 2 for field in returns):
        return f"tuple[{', '.join(_RETURNS[field[0]] for field in returns)}]"
    name = _result_name(field for _, field in returns)
    results[name] = [f"    {field}: {_RETURNS[kind]}" for kind, field in returns]
    return name


def _result_name(fields):
    return "_" + "".join(field.title().replace("_", "") for field in fields) + "Result"


def _parameter(p):
    name = p.name + "_" if keyword.iskeyword(p.name) else p.name
    annotation = python_type(p.type)
    if p.default is None:
        return f"{name}: {annotation}"
    if p.default == "None" and not (annotation.endswith("None") or annotation == "Any"):
        annotation += " | None"
    is_code = p.default != "None" and p.type.rstrip("?") in ("layout", "memory_format", "dtype", "device")
    shown = _LITERAL.fullmatch(p.default) and not is_code
    return f"{name}: {annotation} = {p.default.replace(chr(39), chr(34)) if shown else '...'}"


def _arguments(parameters):
    """Yields the argument lists one overload stands for: as written, spelled out, with NumPy's names."""
    positional = [p for p in parameters if not p.keyword_only]
    yield _join([_parameter(p) for p in positional], _keywords(parameters))
    for at, p in enumerate(positional):
        if p.spelled_out:
            spread = f"*{p.name}: {'Tensor' if p.type.startswith('Tensor') else '_int'}"
            after = [_parameter(q) for q in positional[at + 1 :]]
            yield [*map(_parameter, positional[:at]), spread, *after, *_keywords(parameters)]
    for renames in ({"dim": "axis", "keepdim": "keepdims"}, {"keepdim": "keepdims"}):
        if all(any(p.name == name for p in parameters) for name in renames) or (
            len(renames) == 2 and any(p.name == "dim" for p in parameters)
        ):
            yield _renamed(parameters, renames)


def _renamed(parameters, renames):
    """The first renamed argument becomes required and keyword-only: calls without it fit the form as written."""
    start = next(i for i, p in enumerate(parameters) if p.name in renames)
    swapped = [dataclasses.replace(p, name=renames.get(p.name, p.name)) for p in parameters[start:]]
    swapped[0] = dataclasses.replace(swapped[0], default=None)
    before = parameters[:start]
    return _join(
        [_parameter(p) for p in before if not p.keyword_only],
        [_parameter(p) for p in (*(p for p in before if p.keyword_only), *swapped)],
    )


def _keywords(parameters):
    return [_parameter(p) for p in parameters if p.keyword_only]


def _join(positional, keywords):
    return [*positional, *(["*"] if keywords else []), *keywords]


def _functions(name, forms, indent=""):
    """Lines of one function from its (arguments, return type) forms; several become overloads."""
    unique = list(dict.fromkeys((tuple(arguments), returns) for arguments, returns in forms))
    lines = []
    for arguments, returns in unique:
        if len(unique) > 1:
            lines.append(f"{indent}@overload")
        lines += _definition(name, arguments, returns, indent)
    return lines


def _definition(name, arguments, returns, indent):
    """One `def`, broken as the formatter would: on one line, arguments on their own line, one argument a line."""
    line = f"{indent}def {name}({', '.join(arguments)}) -> {returns}: ..."
    if len(line) <= _WIDTH:
        return [line]
    middle = f"{indent}    {', '.join(arguments)}"
    body = [middle] if len(middle) <= _WIDTH else [f"{indent}    {argument}," for argument in arguments]
    return [f"{indent}def {name}(", *body, f"{indent}) -> {returns}: ..."]


def _with_out(parameters, returns):
    kind = "Tensor?" if isinstance(returns, str) else "Tensor[]?"
    if any(p.name == "out" for p in parameters):
        return parameters
    return (*parameters, Parameter(kind, "out", "None", keyword_only=True))


def _forms(op, keep_self, with_out):
    """(arguments, return type) of every way to call a function or method of the op table."""
    for text in op.signatures:
        signature = parse_signature(text)
        parameters = signature.parameters
        if keep_self:
            parameters = parameters[1:]
        if text in with_out:
            parameters = _with_out(parameters, signature.returns)
        for arguments in _arguments(parameters):
            yield (["self", *arguments] if keep_self else arguments), signature.returns


def _op_lines(name, op, with_out, results, method=False):
    indent = "    " if method else ""
    in_place = name.endswith("_")
    forms = []
    for arguments, returns in _forms(op, method, () if in_place else with_out):
        forms.append((arguments, "Tensor" if in_place else _return_type(returns, results)))
    return _functions(name, forms, indent)


# ---- what is not an op ----------------------------------------------------------------------------------------------


def _python_lines(name, function, indent=""):
    """A function written in Python: its own annotations, or what the names of its parameters say."""
    signature = inspect.signature(function)
    parts, star, positional_only = [], False, False
    for p in signature.parameters.values():
        if positional_only and p.kind is not p.POSITIONAL_ONLY:
            parts.append("/")
        positional_only = p.kind is p.POSITIONAL_ONLY
        guess = "_bool" if isinstance(p.default, bool) else "Any"
        annotation = _annotation(p.annotation) or stub_parts.PARAMETERS.get(p.name, guess)
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
        star = star or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        prefix = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        if p.name == "self":
            parts.append(p.name)
        elif p.default is p.empty:
            parts.append(f"{prefix}{p.name}: {annotation}")
        else:
            if p.default is None and "None" not in annotation and annotation != "Any":
                annotation += " | None"
            parts.append(f"{p.name}: {annotation} = {_default(p.default)}")
    guess = "_bool" if name.startswith("is_") else "Tensor" if indent else "Any"
    returns = _annotation(signature.return_annotation) or stub_parts.RETURNS.get(name, guess)
    return _definition(name, parts, returns, indent)


def _annotation(annotation):
    """An annotation of the source as text for the stub, where int and its like are names of dtypes."""
    if annotation is inspect.Parameter.empty:
        return ""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"\b(builtins|fb)\.|\bflambeau\._tensor\.layouts\.", "", text)
    text = re.sub(r"\bDevice\b", "_DeviceLike | None", text)
    return re.sub(r"(?<![\w.])(int|float|bool|str|dtype|device)\b", r"_\1", text)


def _default(value):
    if isinstance(value, str):
        return json.dumps(value)
    return repr(value) if value is None or isinstance(value, bool | int) else "..."


def _is_typed(name, text, indent=""):
    return re.search(rf"^{indent}(def {name}\(|class {name}\b|{name}:)", text, re.MULTILINE)


def _module_lines(module, with_out, results, typed=""):
    """(import lines, the rest as text) for what a module offers: functions, classes, constants."""
    imports, functions, classes, constants = [], [], [], []
    listed = getattr(module, "__all__", dir(module)) if hasattr(module, "__file__") else dir(module)
    for name in sorted(listed):
        if name.startswith("_") or _is_typed(name, typed):
            continue
        value = getattr(module, name)
        if inspect.ismodule(value) or _is_foreign(value):
            continue
        if hasattr(value, "signatures"):
            functions += _op_lines(name, value, with_out, results)
        elif inspect.isfunction(value):
            functions += _python_lines(name, value)
        elif inspect.isclass(value):
            if value.__module__ == "flambeau.return_types":
                constants.append(f"{name} = {_result_name(value.__match_args__)}")
            elif value.__module__ == "flambeau":  # FloatTensor and similar types
                classes.append(f"class {name}(Tensor): ...")
            else:
                imports.append(f"from .{value.__module__.removeprefix('flambeau.')} import {value.__name__} as {name}")
        elif value is None or isinstance(value, fb.Generator):
            constants.append(f"{name}: {'None' if value is None else 'Generator'}")
        elif isinstance(value, fb.dtype | fb.layout | fb.memory_format | int | float | str):
            constants.append(f"{name}: _{type(value).__name__}")
        else:
            raise ValueError(f"stubs: {module.__name__}.{name} is a {type(value).__name__}; type it in stub_parts.py")
    groups = ["\n".join(group) for group in (functions, classes, constants) if group]
    return sorted(imports), "\n\n".join(groups)


def _is_foreign(value):
    """Imported for use, such as a helper of the standard library."""
    module = getattr(value, "__module__", None)
    return isinstance(module, str) and module.split(".")[0] not in ("flambeau", "builtins")


# ---- the files ------------------------------------------------------------------------------------------------------


def generate():
    """Returns {file name: text} for the package's stubs."""
    with_out = {text for overloads, _ in _C.registry().values() for text, flags, _ in overloads if flags & _OUT}
    results = {}
    modules = [name for name in dir(fb) if not name.startswith("_") and inspect.ismodule(getattr(fb, name))]
    typed = stub_parts.CLASSES + stub_parts.TENSOR + stub_parts.FUNCTIONS
    parts = {
        name: _module_lines(getattr(fb, name), with_out, results)
        for name in modules
        if name in stub_parts.STUBBED_MODULES
    }
    functional_ops = _C.namespaces["nn.functional"]
    functional = "\n".join(
        line for name in sorted(functional_ops) for line in _op_lines(name, functional_ops[name], with_out, results)
    )
    imports, functions = _module_lines(fb, with_out, results, typed)
    tensor = _tensor_lines(with_out, results)
    named = [line for name, fields in sorted(results.items()) for line in (f"class {name}(NamedTuple):", *fields, "")]
    body = "\n".join([stub_parts.CLASSES, *named, *tensor, "", stub_parts.FUNCTIONS + functions])
    imports = [*(f"from . import {name} as {name}" for name in modules), *imports]
    files = {"__init__.pyi": _file(f"{body}\n\n{stub_parts.ALIASES}", imports)}
    private = {*results, *re.findall(r"^(_\w+)", stub_parts.ALIASES, re.MULTILINE), "Tensor", "Generator"}
    parts["nn/functional/_ops"] = [], f"{_all_lines(functional_ops)}\n\n{functional}"
    for name, (imports, text) in parts.items():
        used = private.intersection(re.findall(r"\w+", text))
        used = sorted(used, key=lambda word: (not word[0].isupper(), word.lower()))
        package = "flambeau" if "/" in name else "."
        line = f"from {package} import {', '.join(used)}"
        if len(line) > _WIDTH:
            line = "\n".join([f"from {package} import (", *(f"    {word}," for word in used), ")"])
        imports = [*([line] if used else []), *imports]
        files[f"{name}.pyi"] = _file(text, imports)
    return files


def _all_lines(names):
    return "\n".join(["__all__ = [", *(f'    "{name}",' for name in sorted(names)), "]"])


def _file(body, imports):
    """A stub file: the note, the imports its body needs, the body."""
    words = set(re.findall(r"\w+", body))
    standard = []
    for module, names in stub_parts.IMPORTS.items():
        needed = [name for name in names or () if name in words]
        if needed:
            standard.append(f"from {module} import {', '.join(needed)}")
        elif names is None and module in words:
            standard.append(f"import {module}")
    blocks = ["\n".join(standard), "import numpy as np" if "np" in words else "", "\n".join(imports)]
    return "\n\n".join(filter(None, [stub_parts.NOTE, *blocks, body])).rstrip("\n") + "\n"


def _tensor_lines(with_out, results):
    lines = [stub_parts.TENSOR + stub_parts.operators()]
    for name in sorted(dir(fb.Tensor)):
        value = inspect.getattr_static(fb.Tensor, name)
        if name.startswith("_") or _is_typed(name, stub_parts.TENSOR, "    "):
            continue
        if hasattr(value, "signatures"):
            lines += _op_lines(name, value, with_out, results, method=True)
        elif inspect.isfunction(value):
            lines += _python_lines(name, value, "    ")
        elif inspect.isdatadescriptor(value):
            lines += ["    @property", f"    def {name}(self) -> {stub_parts.RETURNS.get(name, '_bool')}: ..."]
        else:
            raise ValueError(f"stubs: Tensor.{name} is a {type(value).__name__}; type it in stub_parts.py")
    return lines


def main():
    folder = Path(fb.__file__).parent
    for name, text in generate().items():
        (folder / name).write_text(text)
        print(f"wrote {folder / name}")


if __name__ == "__main__":
    main()
