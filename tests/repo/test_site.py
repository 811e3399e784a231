"""The documentation site without a browser: every public name is on one page, links lead somewhere, the gallery and charts are complete.

`make docs` builds the site with --strict; tools/check_site.py checks the result, in Chromium too.
"""

import importlib.util
import inspect
import posixpath
import re
import sys
from pathlib import Path

import pytest
import yaml

import flambeau as fb

ROOT = Path(__file__).parents[2]


def load(path):
    """A script of the repository as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


reference = load(ROOT / "docs/gen_reference.py")
gallery = load(ROOT / "docs/gen_gallery.py")
charts = load(ROOT / "docs/gen_charts.py")
families = sys.modules["families"]
check_site = load(ROOT / "tools/check_site.py")


@pytest.fixture(scope="module")
def built():
    return reference.build()


@pytest.fixture(scope="module")
def pages(built):
    """{page: Markdown} of the whole site."""
    written = [path.relative_to(ROOT / "docs") for path in ROOT.glob("docs/**/*.md")]
    # docs/reference may be left from an earlier version, which wrote its pages there.
    sources = {str(path): (ROOT / "docs" / path).read_text() for path in written if path.parts[0] != "reference"}
    made = {f"reference/{name}": text for name, text in built[1].items()}
    return {**sources, **made, **gallery.pages(), **charts.pages()}


def anchors(text):
    """What links to a page may end in."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    explicit = re.findall(r"\{ #([\w.-]+) \}", text) + re.findall(r'<a id="([^"]+)">', text)
    headings = re.findall(r"^#+ (.*?)(?: \{ #.*\})?$", text, re.M)
    return explicit + [re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", h.replace("\\", "")).strip().lower()) for h in headings]


def test_every_public_name_has_one_entry(built):
    found, texts = built
    wanted = {f"{m}.{n}".lstrip(".") for m, owner in reference.public_modules().items() for n in reference.public_members(owner)}
    wanted |= {f"Tensor.{name}" for name in reference.public_members(fb.Tensor)}
    assert wanted <= set(found.entries), sorted(wanted - set(found.entries))
    described = [path for page in found.pages.values() for path in page.entries + page.others]
    assert sorted(described) == sorted(set(described)), "a name is on two pages"
    assert set(described) | {"Tensor"} == set(found.entries)
    for path, entry in found.entries.items():
        marks = [f"{{ #{entry.anchor} }}", f'<a id="{entry.anchor}"></a>']
        count = sum(texts[entry.page].count(mark) for mark in marks)
        assert count == 1, f"{path}: {count} entries {entry.anchor} in reference/{entry.page}, expected one"


def test_every_class_has_a_page_of_its_own(built):
    found, texts = built
    own = {e.path: e.page for e in found.entries.values() if inspect.isclass(e.value) and not e.same_as}
    assert len(own) > 250 and len(set(own.values())) == len(own)
    for path in ("nn.Linear", "optim.AdamW", "utils.data.DataLoader", "device"):
        assert texts[own[path]].startswith(f"# {path} "), path


def test_every_function_has_a_family():
    without = [n for n, v in reference.public_members(fb).items() if not inspect.isclass(v) and families.family(n, v) is None]
    layers = reference.public_members(fb.nn.functional)
    without += [f"nn.functional.{n}" for n, v in layers.items() if families.layer_family(n, v) is None]
    assert not without, f"no rule in docs/families.py gives these a page: {without}"


def test_internal_links_lead_somewhere(pages):
    known = {name: set(anchors(text)) for name, text in pages.items()}
    wrong, followed = [], 0
    for name, text in pages.items():
        text = re.sub(r"^```.*?^```$|<figure>.*?</figure>", "", text, flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'<(?:a|img)[^>]* (?:href|src)="([^"]+)"', text):
            if re.match(r"\w+://", target):
                continue
            followed += 1
            file, _, anchor = target.partition("#")
            file = posixpath.normpath(posixpath.join(posixpath.dirname(name), file)) if file else name
            file = re.sub(r"\.html$", ".md", file)
            if file.endswith(".md") and (file not in known or anchor and anchor not in known[file]):
                wrong.append(f"{name}: {target}")
            if file.endswith((".png", ".svg")) and not ((ROOT / "docs" / file).exists() or (ROOT / file).exists()):
                wrong.append(f"{name}: {target}")
    assert followed > 2000
    assert not wrong, wrong[:20]


def test_the_menu_has_every_page(built, pages):
    def leaves(menu):
        for item in menu:
            values = item.values() if isinstance(item, dict) else [item]
            for value in values:
                yield from leaves(value) if isinstance(value, list) else [value]

    in_menu = list(leaves(reference.menu(built[1])))
    assert sorted(in_menu) == sorted(name for name in pages if name.startswith("reference/"))


def test_the_gallery_has_every_example(pages):
    text = pages["gallery/index.md"]
    scripts = [*(ROOT / "examples").glob("*.py"), *(ROOT / "examples/scripts_for_pytorch").glob("*.py")]
    assert text.count('class="card"') == len(scripts) == len(gallery.scripts()) > 15
    for name, path in gallery.scripts().items():
        assert f'href="{name}.html"' in text
        assert path.read_text().rstrip() in pages[f"gallery/{name}.md"]


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_pictures_of_an_example_are_in_the_gallery(path):
    drawn = set(re.findall(r"\b(\w+\.png)\b", gallery.ast.get_docstring(gallery.ast.parse(path.read_text()))))
    shown = gallery.pictures(path.stem)
    assert {picture.name for picture in shown} == drawn, "python docs/gen_gallery.py makes the pictures"
    for picture in shown:
        assert picture.stat().st_size < 200_000, picture


def test_charts_show_the_figures_of_the_results():
    text = charts.RESULTS.read_text()
    found = charts.charts(text)
    assert set(found) == set(charts.SECTIONS)
    told = charts.sections(text)
    assert set(told) >= set(charts.SECTIONS) | set(charts.PICTURES)
    page = charts.pages()["benchmarks/index.md"]
    for key, title in charts.PICTURES.items():
        assert f"## {title}" in page and f"({key}.png)" in page and (charts.RESULTS.parent / f"{key}.png").exists()
    for key, section in told.items():
        for chart in found.get(key, []):
            assert chart.rows and chart.series[0] == "vs PyTorch"
            drawing = charts.svg(chart)
            for name, row in chart.rows.items():
                assert re.search(rf"^\| \**{re.escape(name)}\** .*\b{row[0]:g}[\d.]* ×", section, re.M), (key, name, row)
                assert f">{row[0]:.2f}<" in drawing


def test_a_chart_draws_losses_to_the_left():
    drawing = charts.svg(charts.Chart("test", ("vs PyTorch",), {"faster": (2.0,), "slower & worse": (0.5,)}))
    faster, slower = (float(x) for x in re.findall(r'<rect class="s0" x="([\d.]+)" y="\d+" width="[\d.]+" height="11"', drawing))
    one = float(re.search(r'class="one" x1="([\d.]+)"', drawing)[1])
    assert slower < one == faster
    assert "slower &amp; worse" in drawing


def test_the_theme_loads_nothing_from_other_hosts():
    config = yaml.load((ROOT / "mkdocs.yml").read_text(), yaml.SafeLoader)
    assert config["theme"]["name"] == "material" and config["theme"]["font"] is False
    for key in ("extra_css", "extra_javascript"):
        assert not [address for address in config.get(key, ()) if "//" in str(address)]
    for path in (ROOT / "docs/assets").glob("*.css"):
        assert not check_site.outside(path.read_text())


def test_assets_from_other_hosts_are_found():
    page = '<a href="https://a.org">followed</a><link rel="stylesheet" href="//b.org/x.css"><script src="https://c.org/x.js"></script>'
    assert check_site.outside(page) == ["//b.org/x.css", "https://c.org/x.js"]
    assert check_site.outside("@import 'https://d.org/font.css'; p { background: url(https://e.org/i.png) }") == [
        "https://d.org/font.css", "https://e.org/i.png",
    ]  # fmt: skip


def test_the_configuration_loads(monkeypatch):
    """The theme, the extensions and the hooks are there; the pages are not rendered."""
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    pytest.importorskip("material", reason="mkdocs-material is not installed; make installs it")
    from mkdocs.config import load_config

    config = load_config(str(ROOT / "mkdocs.yml"))
    assert config.theme.name == "material"
    assert len(config.hooks) == 3
