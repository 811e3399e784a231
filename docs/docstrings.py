"""Docstrings and signatures of the library as Markdown, for gen_reference.py."""

import inspect
import re
import textwrap

from flambeau._registry import signatures as ops

_SECTION = re.compile(r"^(Args|Arguments|Returns|Raises|Example|Examples|Note|See also):\s*(.*)$")
_WIDTH = 78


def signatures(name, value):
    """The ways to call it as lines of Python, one per overload."""
    op = inspect.unwrap(value) if callable(value) else value
    try:
        found = [ops.of((text,), False) for text in op.signatures] if hasattr(op, "signatures") else [inspect.signature(value)]
    except (TypeError, ValueError):
        return []
    return list(dict.fromkeys(_call(name, signature) for signature in found))


def _call(name, signature):
    """The signature in one line, or with one argument per line where that is too long."""
    if inspect.isclass(signature.return_annotation) or signature.return_annotation in ("None", None):
        signature = signature.replace(return_annotation=inspect.Signature.empty)
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(signature)).replace("fb.", "")
    text = re.sub(r"<object object at 0x\w+>|<function (\w+) at 0x\w+>|<class '([\w.]+)'>", lambda m: m[1] or m[2] or "...", text)
    if len(name + text) <= _WIDTH or text.startswith("()"):
        return name + text
    inside, close, result = text[1:].rpartition(") ->") if ") ->" in text else (text[1:-1], ")", "")
    parts, depth, part = [], 0, ""
    for c in inside:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += c
    lines = "".join(f"    {p},\n" for p in [*parts, part.strip()])
    return f"{name}(\n{lines}{close}{result}"


def description(value):
    """The docstring without the signatures an op's begins with, or a function's that is written in C++."""
    doc = inspect.getdoc(value) or ""
    begins = hasattr(inspect.unwrap(value), "signatures") or re.match(r"\w+\([^\n]*\)( -> [^\n]*)?\n\n", doc)
    return doc.partition("\n\n")[2] if begins else doc


def summary(value):
    """The first line of the docstring."""
    return " ".join(description(value).strip().partition("\n\n")[0].split())


def markdown(doc):
    """A docstring as Markdown: arguments become a list, examples a code block."""
    lines, section, body = [], None, []

    def flush():
        text = textwrap.dedent("\n".join(body)).strip("\n")
        if section in ("Example", "Examples"):
            lines.extend([f"**{section}**", "", "```pycon", text, "```", ""])
        elif section in ("Args", "Arguments", "Raises"):
            lines.extend([f"**{'Raises' if section == 'Raises' else 'Arguments'}**", "", *_bullets(text), ""])
        elif section is None:
            lines.extend([_paragraphs(text), ""])
        elif text:
            lines.extend([f"**{section}** {escaped(text)}", ""])

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


def _paragraphs(text):
    """Plain text; indented blocks are code, with prompts or without."""
    result = []
    for block in re.split(r"\n\s*\n", text):
        if block.startswith(" ") and not re.match(r"\s*[-*] ", block):
            code = textwrap.dedent(block)
            result.append(f"```{'pycon' if code.startswith('>>>') else 'text'}\n{code}\n```")
        elif block.startswith(">>>"):
            result.append(f"```pycon\n{block}\n```")
        else:
            result.append(escaped(block))
    return "\n\n".join(result)


def _bullets(text):
    for line in text.splitlines():
        if line and not line[0].isspace():
            name, colon, rest = line.partition(":")
            yield f"- `{name}`: {escaped(rest.strip())}" if colon else f"- {escaped(line)}"
        elif line.strip():
            yield "  " + escaped(line.strip())


def escaped(text):
    """Formulas keep their asterisks and brackets; what is in backticks is code already."""
    parts = re.split(r"(`+[^`]*`+)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([*_<\[\]])", r"\\\1", p) for p in parts)


def cell(text):
    """Text in a cell of a table."""
    return escaped(text).replace("|", "\\|")
