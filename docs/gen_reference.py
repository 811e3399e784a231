"""Writes the API reference (docs/reference/*.md) from the library itself: signatures and docstrings, nothing by hand.

MkDocs calls `on_config` before each build; `python docs/gen_reference.py` writes the pages by hand.
"""

import importlib
import inspect
import pkgutil
import re
import textwrap
from pathlib import Path

import flambeau as fb

OUTPUT = Path(__file__).parent / "reference"
_SECTION = re.compile(r"^(Args|Arguments|Returns|Raises|Example|Examples|Note|See also):\s*(.*)$")


def public_modules():
    """{"": the package, "linalg": its submodule, …}: every module without a leading underscore."""
    names = {info.name for info in pkgutil.iter_modules(fb.__path__)}
    names |= {name for name, value in vars(fb).items() if inspect.ismodule(value) and _is_ours(value)}
    modules = {"": fb}
    for name in sorted(names):
        # The classes of results are described with the ops that return them.
        if not name.startswith("_") and name != "return_types":
            modules[name] = getattr(fb, name, None) or importlib.import_module(f"flambeau.{name}")
    return modules


def _is_ours(module):
    return module.__name__.startswith("flambeau.")


def public_members(owner):
    """{name: object} of what a module or class offers: functions, methods, properties and classes, no constants."""
    listed = getattr(owner, "__all__", None) if inspect.ismodule(owner) else None
    names = listed if listed is not None else [name for name in dir(owner) if not name.startswith("_")]
    members = {}
    for name in sorted(names):
        value = inspect.getattr_static(owner, name, None) if inspect.isclass(owner) else getattr(owner, name)
        foreign = inspect.ismodule(owner) and _is_foreign(value)
        if not inspect.ismodule(value) and not foreign and (callable(value) or inspect.isdatadescriptor(value)):
            members[name] = value
    return members


def _is_foreign(value):
    """Something imported for use, such as numpy functions or typing helpers."""
    module = getattr(value, "__module__", None)
    return isinstance(module, str) and module.split(".")[0] not in ("flambeau", "builtins")


def signatures(name, value):
    """The lines that say how to call it: the op table's signature strings, or Python's own signature."""
    op = inspect.unwrap(value) if callable(value) else value
    if hasattr(op, "signatures"):
        return list(op.signatures)
    try:
        return [name + str(inspect.signature(value))]
    except (TypeError, ValueError):
        return []


def description(value):
    """The docstring without the signatures an op's begins with."""
    doc = inspect.getdoc(value) or ""
    return doc.partition("\n\n")[2] if hasattr(inspect.unwrap(value), "signatures") else doc


def markdown(doc):
    """A docstring as Markdown: arguments become a list, examples a code block."""
    lines, section, body = [], None, []

    def flush():
        text = textwrap.dedent("\n".join(body)).strip("\n")
        if section in ("Example", "Examples"):
            lines.extend(["```python", text, "```", ""])
        elif section in ("Args", "Arguments", "Raises"):
            lines.extend([f"**{section}**", "", *_bullets(text), ""])
        elif section is None:
            lines.extend([_escaped(text), ""])
        elif text:
            lines.extend([f"**{section}** {_escaped(text)}", ""])

    for line in inspect.cleandoc(doc).splitlines():
        match = _SECTION.match(line)
        if match:
            flush()
            section, rest = match.groups()
            body = [rest] if rest else []
        elif section is not None and line and not line[0].isspace():
            flush()
            section, body = None, [line]
        else:
            body.append(line)
    flush()
    return "\n".join(lines)


def _bullets(text):
    for line in text.splitlines():
        if line and not line[0].isspace():
            name, colon, rest = line.partition(":")
            yield f"- `{name}`: {_escaped(rest.strip())}" if colon else f"- {_escaped(line)}"
        elif line.strip():
            yield "  " + _escaped(line.strip())


def _escaped(text):
    """Formulas keep their asterisks and brackets; what stands in backticks is code already."""
    parts = re.split(r"(`+[^`]*`+)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([*_<\[\]])", r"\\\1", p) for p in parts)


def entry(name, value, functions=None):
    """One heading with signatures and text; another form of a function in `functions` points there instead."""
    base = name if functions is None else _base_name(name, value)
    if base in (functions or ()) and (base != name or value is not functions[base]):
        what = (
            f"In-place form of `{base}`"
            if name.endswith("_")
            else "The same as a method"
            if base == name
            else "Another name"
        )
        return f"## {name}\n\n{what}; see [`fb.{base}`](functions.md#{base}).\n"
    calls = signatures(name, value)
    code = ["```text", *calls, "```", ""] if calls else []
    return "\n".join([f"## {name}", "", *code, markdown(description(value))])


def _base_name(name, value):
    """The name in the op table: `abs` for `absolute`, `abs_` and `Tensor.abs`."""
    calls = getattr(value, "signatures", None)
    return calls[0].partition("(")[0] if calls else name


def pages():
    """{file name: Markdown text} of the whole reference."""
    members = public_members(fb)
    classes = {name: value for name, value in members.items() if inspect.isclass(value) and name != "Tensor"}
    functions = {name: value for name, value in members.items() if not inspect.isclass(value)}
    tensor = public_members(fb.Tensor).items()
    texts = {
        "functions.md": ("Functions", [entry(n, v, functions) for n, v in functions.items()]),
        "tensor.md": ("Tensor", [markdown(description(fb.Tensor)), *(entry(n, v, functions) for n, v in tensor)]),
        "classes.md": ("Classes", [entry(n, v) for n, v in classes.items()]),
    }
    for module, value in public_modules().items():
        items = [entry(n, v) for n, v in public_members(value).items()] if module else []
        if items:
            texts[f"{module}.md"] = (f"flambeau.{module}", [markdown(value.__doc__ or ""), *items])
    index = ["# API reference", "", "Generated from the signatures and docstrings of the library.", ""]
    for file, (title, items) in texts.items():
        index.append(f"- [{title}]({file}): {sum(item.startswith('## ') for item in items)} names")
    result = {file: f"# {title}\n\n" + "\n".join(items) + "\n" for file, (title, items) in texts.items()}
    return {"index.md": "\n".join(index) + "\n", **result}


def write(folder=OUTPUT):
    folder.mkdir(parents=True, exist_ok=True)
    texts = pages()
    for path in folder.glob("*.md"):
        if path.name not in texts:
            path.unlink()
    for file, text in texts.items():
        path = folder / file
        # Untouched files keep their time stamp, or `mkdocs serve` would rebuild for ever.
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def on_config(config):
    """MkDocs' first step: the pages must be there, and in the menu, before it looks for files."""
    write()
    config.nav.append({"Reference": [f"reference/{file}" for file in pages()]})
    return config


if __name__ == "__main__":
    write()
    print(f"wrote {OUTPUT}")
