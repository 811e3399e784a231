"""The API reference of the documentation site, made from the library itself: signatures and docstrings, nothing by hand.

`pages()` returns the Markdown of every page. MkDocs calls `on_config` and `on_files`, so no page is written to the sources.
There is one page per class, one per family of functions, and an overview per module. A name that a module only repeats (the same
object is described elsewhere) is a row of a table there, with a link.
"""

import importlib
import inspect
import pkgutil
import posixpath
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import flambeau as fb

sys.path.insert(0, str(Path(__file__).parent))
from docstrings import cell, description, escaped, markdown, signatures, summary  # noqa: E402
from families import FAMILIES, LAYERS, family, layer_family  # noqa: E402

# Modules with the names of PyTorch's internals, for scripts that import them; their contents are described elsewhere.
INTERNAL = ("compat.", "multiprocessing.", "nn.modules", "return_types")


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


def nested_modules():
    """{"nn.functional": module, …}: the public modules of the packages, the ones nearer to the top first."""
    found = {}
    for info in pkgutil.walk_packages(fb.__path__, "flambeau."):
        name = info.name.removeprefix("flambeau.")
        if "." in name and not name.startswith(INTERNAL) and not any(part.startswith("_") for part in name.split(".")):
            module = importlib.import_module(info.name)
            if hasattr(module, "__all__"):
                found[name] = module
    return dict(sorted(found.items(), key=lambda item: (item[0].count("."), item[0])))


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


@dataclass
class Entry:
    """A public name: where it is described, and whether it is another name of what is described there."""

    path: str  # "nn.Linear", "Tensor.abs"
    value: object
    page: str
    anchor: str
    same_as: str = ""  # the path of the entry that describes it


@dataclass
class Page:
    """One page of the reference before it is text."""

    title: str
    intro: str = ""
    entries: list = field(default_factory=list)  # described here
    others: list = field(default_factory=list)  # described elsewhere, or other forms of entries


def base_name(name, value):
    """The name in the op table: `abs` for `absolute`, `abs_` and `Tensor.abs`."""
    calls = getattr(value, "signatures", None)
    return calls[0].partition("(")[0] if calls else name


def _function_page(module, name, value):
    if module == "":
        return f"functions/{family(name, value) or 'other'}.md"
    if module == "nn.functional":
        return f"nn.functional/{layer_family(name, value) or 'other'}.md"
    return f"{module}/index.md"


def _class_page(module, name):
    return f"{module or 'classes'}/{name}.md"


class Reference:
    """Every public name and the page that has it."""

    def __init__(self):
        self.entries, self.pages = {}, {}
        self.modules = {**public_modules(), **nested_modules()}
        self._home = self._homes()
        described = {path.rpartition(".")[0] for path in self._home.values()}
        self.modules = {name: value for name, value in self.modules.items() if "." not in name or name in described}
        for page, title, intro, *_ in FAMILIES:
            self.pages[f"functions/{page}.md"] = Page(title, intro)
        for page, title in LAYERS.items():
            self.pages[f"nn.functional/{page}.md"] = Page(f"nn.functional: {title}")
        for module, value in self.modules.items():
            for name, member in public_members(value).items():
                self._add_member(module, name, member)
        tensor = self.pages["tensor.md"] = Page("Tensor", markdown(description(fb.Tensor)))
        self._add("Tensor", fb.Tensor, "tensor.md", "tensor")
        for name, member in public_members(fb.Tensor).items():
            self._add_method(tensor, name, member)

    def _homes(self):
        """{id of an object: the path that describes it}: its own name, in a module above the one that defines it, near the top."""
        found = {}
        for module, owner in self.modules.items():
            for name, value in public_members(owner).items():
                own = getattr(value, "__name__", name) == name
                defined = str(getattr(value, "__module__", "")).removeprefix("flambeau").lstrip(".")
                above = module == "" or f"{defined}.".startswith(f"{module}.")
                rank = (not own, not above, module.count(".") + bool(module))
                path = f"{module}.{name}".lstrip(".")
                if id(value) not in found or rank < found[id(value)][0]:
                    found[id(value)] = (rank, path)
        return {key: path for key, (_, path) in found.items()}

    def _add_member(self, module, name, value):
        if value is fb.Tensor and module == "":
            return
        path = f"{module}.{name}".lstrip(".")
        is_class = inspect.isclass(value)
        home = self._home[id(value)]
        home = None if home == path else home
        base = base_name(name, value)
        if home is None and not is_class and base != name and base in public_members(self.modules[module]):
            home = f"{module}.{base}".lstrip(".")  # an in-place form, or another name of the same op
        if home is not None:
            page = f"{module}/index.md" if module else (_class_page("", name) if is_class else _function_page("", name, value))
            if module == "nn.functional":
                page = _function_page(module, name, value)
            if is_class and not module:
                page = "classes/index.md"
            self._add(path, value, page, name, home)
            self._page(page, module).others.append(path)
            return
        page = _class_page(module, name) if is_class else _function_page(module, name, value)
        self._add(path, value, page, name if not is_class else path.lower().replace(".", ""))
        self._page(page, module, path if is_class else "").entries.append(path)

    def _add_method(self, page, name, value):
        base = base_name(name, value)
        same = base if base in self.entries and "." not in base and base != "Tensor" else ""
        if same and name != base and not getattr(value, "signatures", None):
            same = ""
        self._add(f"Tensor.{name}", value, "tensor.md", name, same)
        (page.others if same else page.entries).append(f"Tensor.{name}")

    def _add(self, path, value, page, anchor, same_as=""):
        self.entries[path] = Entry(path, value, page, anchor, same_as)

    def _page(self, page, module, title=""):
        if page not in self.pages:
            doc = "" if title or module == "" else markdown(self.modules[module].__doc__ or "")
            self.pages[page] = Page(title or (module or "Other"), doc)
        return self.pages[page]

    # ---- text --------------------------------------------------------------------------------------------------------

    def link(self, path, page, text=None):
        """A link from a page to an entry; entries that only point elsewhere are followed."""
        entry = self.entries[path]
        while entry.same_as and entry.same_as in self.entries and self.entries[entry.same_as] is not entry:
            entry = self.entries[entry.same_as]
        target = posixpath.relpath(entry.page, posixpath.dirname(page) or ".")
        return f"[`{text or path}`]({target}#{entry.anchor})"

    def linked(self, text, page):
        """Text in which names such as `fb.nn.Linear` are links."""

        def replace(match):
            path = match[1].rstrip("()")
            return self.link(path, page, f"fb.{match[1]}") if path in self.entries else match[0]

        parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
        return "".join(p if p.startswith("```") else re.sub(r"(?<![\[`])`fb\.([\w.]+(?:\(\))?)`(?!\])", replace, p) for p in parts)

    def _described(self, entry, page, level="##"):
        name = entry.path.rpartition(".")[2]
        calls = signatures(entry.path if entry.path.startswith("Tensor.") else f"fb.{entry.path}", entry.value)
        code = ["```python", *calls, "```", ""] if calls else []
        text = self.linked(markdown(description(entry.value)), page)
        return "\n".join([f"{level} {escaped(name)} {{ #{entry.anchor} }}", "", *code, text])

    def _class(self, path, page):
        entry = self.entries[path]
        owner = entry.value
        calls = [] if issubclass(owner, BaseException) else signatures(f"fb.{path}", owner)
        bases = [b for b in owner.__bases__ if b is not object and b.__name__[0] != "_"]
        named = [self.link(self._home[id(b)], page, f"fb.{self._home[id(b)]}") if id(b) in self._home else f"`{b.__name__}`" for b in bases]
        parts = [f"# {escaped(path)} {{ #{entry.anchor} }}", ""]
        parts += ["```python", *(f"class {c}" if i == 0 else c for i, c in enumerate(calls)), "```", ""] if calls else []
        parts += [f"Base: {', '.join(named)}", ""] if named else []
        parts += [self.linked(markdown(description(owner)), page)]
        members = {n: v for n, v in public_members(owner).items() if n in vars(owner) and inspect.getdoc(v)}
        if members:
            parts += ["## Members", ""]
        for name, value in members.items():
            value = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
            calls = [] if isinstance(value, property) else signatures(f"{owner.__name__}.{name}", value)
            code = ["```python", *calls, "```", ""] if calls else []
            parts += [f"### {escaped(name)}", "", *code, self.linked(markdown(description(value)), page)]
        return "\n".join(parts)

    def _others(self, paths, page):
        if not paths:
            return ""
        rows = ["## Other names and forms", "", "| name | described as |", "| --- | --- |"]
        for path in paths:
            entry = self.entries[path]
            rows.append(f'| <a id="{entry.anchor}"></a>`{path}` | {self.link(path, page, entry.same_as)} |')
        return "\n".join(rows) + "\n"

    def text(self, name):
        """The Markdown of a page."""
        page = self.pages[name]
        entries = [self.entries[path] for path in page.entries]
        if entries and inspect.isclass(entries[0].value) and name != "tensor.md":
            return self._class(page.entries[0], name)
        parts = [f"# {page.title} {{ #{'tensor' if name == 'tensor.md' else 'overview'} }}", "", self.linked(page.intro, name), ""]
        if name.endswith("/index.md"):
            parts.append(self._classes_of(name.removesuffix("/index.md"), name))
        elif entries and name != "tensor.md":
            parts += [", ".join(self.link(e.path, name, e.path.rpartition(".")[2]) for e in entries), ""]
        parts += [self._described(entry, name) for entry in entries]
        return "\n".join(parts) + "\n" + self._others(page.others, name)

    def _classes_of(self, module, page):
        module = "" if module == "classes" else module
        owned = [e for e in self.entries.values() if e.path.rpartition(".")[0] == module and inspect.isclass(e.value) and not e.same_as]
        if not owned:
            return ""
        rows = [f"| {self.link(e.path, page)} | {cell(summary(e.value))} |" for e in owned]
        return "\n".join(["| class | |", "| --- | --- |", *rows]) + "\n"


def build():
    """(the reference, {page: Markdown text})."""
    reference = Reference()
    owners = {e.path.rpartition(".")[0] for e in reference.entries.values() if not e.path.startswith("Tensor")}
    for module in sorted(owners):
        if module not in ("nn.functional",):
            reference._page(f"{module or 'classes'}/index.md", module)
    reference.pages["classes/index.md"].title = "Classes of the package"
    filled = [n for n, page in reference.pages.items() if page.entries or page.others or n.endswith("index.md")]
    texts = {name: reference.text(name) for name in filled}
    lines = ["# API reference", "", "Generated from the signatures and docstrings of the library.", ""]
    lines += ["- [Tensor](tensor.md)", "- [Classes of the package](classes/index.md)", "", "## Functions by family", ""]
    lines += ["| family | |", "| --- | --- |"]
    families = [name for name in texts if name.startswith("functions/")]
    lines += [f"| [{reference.pages[name].title}]({name}) | {reference.pages[name].intro} |" for name in families]
    lines += ["", "## Modules", "", "| module | |", "| --- | --- |"]
    for module in sorted(owners - {""}):
        target = "nn.functional/activation.md" if module == "nn.functional" else f"{module}/index.md"
        lines.append(f"| [`{module}`]({target}) | {cell(summary(reference.modules[module]))} |")
    return reference, {"index.md": "\n".join(lines) + "\n", **texts}


def pages():
    """{page: Markdown text} of the whole reference."""
    return build()[1]


def menu(texts):
    """The part of the site's menu: families of functions, modules and their classes."""
    families = [{title: f"reference/functions/{page}.md"} for page, title, *_ in FAMILIES if f"functions/{page}.md" in texts]
    layers = [{title: f"reference/nn.functional/{page}.md"} for page, title in LAYERS.items() if f"nn.functional/{page}.md" in texts]
    modules = {}
    for name in sorted(texts):
        module, slash, file = name.partition("/")
        if slash and file == "index.md" and module != "classes":
            modules.setdefault(module.partition(".")[0], []).append(module)
    grouped = []
    for top, members in modules.items():
        nested = [{module: _module_menu(texts, module)} for module in members if module != top]
        nested += [{"nn.functional": layers}] if top == "nn" else []
        own = _module_menu(texts, top) if top in members else []
        grouped.append({top: [*own[:1], *nested, *own[1:]]})
    top = ["reference/index.md", {"Tensor": "reference/tensor.md"}, {"Classes": _module_menu(texts, "classes")}]
    return [*top, {"Functions": families}, {"Modules": grouped}]


def _module_menu(texts, module):
    """The overview of a module and the pages of its classes."""
    pages = sorted(name for name in texts if name.startswith(f"{module}/"))
    classes = [{name.removeprefix(f"{module}/")[:-3]: f"reference/{name}"} for name in pages if not name.endswith("/index.md")]
    return [f"reference/{module}/index.md", *classes]


_built = {}


def on_config(config):
    """MkDocs' first step: the menu needs the names of the pages."""
    _built.update(pages())
    config.nav.append({"Reference": menu(_built)})
    return config


def on_files(files, config):
    """Adds the pages of the reference to those of the sources."""
    from mkdocs.structure.files import File

    for name, text in _built.items():
        files.append(File.generated(config, f"reference/{name}", content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    """Examples with prompts are highlighted as sessions, so that copying them leaves the prompts out."""
    return re.sub(r"^```python\n(?=>>>)", "```pycon\n", markdown, flags=re.M)
