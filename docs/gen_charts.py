"""The benchmark pages of the documentation site: charts and tables from benchmarks/RESULTS.md.

The charts are SVG inside the page, so that they take their colours from the theme (docs/assets/site.css).
"""

import html
import math
import re
from dataclasses import dataclass
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "benchmarks" / "RESULTS.md"
TICKS = (0.25, 0.5, 1, 2, 4, 8, 16)
RIGHT, BAR, GAP = 50, 13, 10  # pixels: room for a figure, height of a bar, between rows
WIDTH = 860
NAMES = {"vs compile": "vs torch.compile"}


@dataclass
class Chart:
    """Rows of ratios, {name: (ratio or None per series)}; above 1, flambeau is faster or smaller."""

    title: str
    series: tuple[str, ...]
    rows: dict[str, tuple[float | None, ...]]


def sections(text):
    """{name in the comment: its text} of the results."""
    return dict(re.findall(r"<!-- (\w+): begin.*?-->\n(.*?)<!-- \1: end -->", text, re.S))


def tables(section):
    """{heading or "": (columns, rows)} of the first table under each heading."""
    found = {}
    for part in re.split(r"^(?=### )", section, flags=re.M):
        heading = re.match(r"### (.*)", part)
        lines = re.findall(r"^\|.*\|$", part.partition("\n| budget")[0], re.M)
        rows = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines]
        if rows:
            found[heading[1].strip() if heading else ""] = (rows[0], rows[2:])
    return found


def ratio(cell):
    """The number in "1.88 ×", None for "–"."""
    match = re.fullmatch(r"([\d.]+) ×", cell)
    return float(match[1]) if match else None


def chart(title, table, wanted=("vs PyTorch", "vs NumPy")):
    """The ratios of a table; columns without any are left out."""
    columns, rows = table
    series = [c for c in wanted if c in columns and any(ratio(row[columns.index(c)]) for row in rows)]
    values = {row[0]: tuple(ratio(row[columns.index(c)]) for c in series) for row in rows}
    return Chart(title, tuple(series), {name: v for name, v in values.items() if any(v)})


def svg(c):
    """Horizontal bars from 1 on a logarithmic axis."""
    values = [v for row in c.rows.values() for v in row if v]
    ticks = [t for t in TICKS if t <= 1 or t / 2 < max(values)]
    ticks = [t for t in ticks if t >= 0.5 or t * 2 > min(values)]
    low, high = math.log2(min(min(ticks), min(values))), math.log2(max(max(ticks), max(values)))
    label = 20 + 6.4 * max(map(len, c.rows))
    plot = WIDTH - label - RIGHT
    row_height = BAR * len(c.series) + GAP
    height = 34 + row_height * len(c.rows) + 24

    def x(v):
        return label + plot * (math.log2(v) - low) / (high - low)

    parts = [f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(c.title)}">']
    for t in ticks:
        kind = "one" if t == 1 else "grid"
        parts.append(f'<line class="{kind}" x1="{x(t):.1f}" x2="{x(t):.1f}" y1="28" y2="{height - 24}"/>')
        parts.append(f'<text class="tick" x="{x(t):.1f}" y="{height - 8}">{t:g} ×</text>')
    for i, name in enumerate(c.series):
        at = round(label) + 150 * i
        parts.append(f'<rect class="s{i}" x="{at}" y="6" width="12" height="12"/>')
        parts.append(f'<text class="legend" x="{at + 18}" y="16">{html.escape(NAMES.get(name, name))}</text>')
    for r, (name, row) in enumerate(c.rows.items()):
        y = 34 + r * row_height
        parts.append(f'<text class="name" x="{label - 10:.0f}" y="{y + BAR * len(c.series) / 2 + 4:.1f}">{html.escape(name)}</text>')
        for i, v in enumerate(row):
            if v:
                left, right = sorted((x(1), x(v)))
                top = y + BAR * i
                parts.append(f'<rect class="s{i}" x="{left:.1f}" y="{top}" width="{max(right - left, 1):.1f}" height="{BAR - 2}"/>')
                parts.append(f'<text class="value" x="{right + 5:.1f}" y="{top + BAR - 4}">{v:.2f}</text>')
    return "".join([*parts, "</svg>"])


INTRO = """# Benchmarks

The bars are ratios: the time (or memory) of PyTorch or NumPy divided by flambeau's on the same machine. Above 1, flambeau is faster
(or needs less memory). The axis is logarithmic. Every figure, and every row in which flambeau is slower, is in the
[tables](tables.md), which the scripts in `benchmarks/` write.
"""
SECTIONS = {
    "models": "Models",
    "ops": "Single operations",
    "overhead": "Overhead of a call on a tiny tensor",
    "memory": "Memory",
    "data": "Loading data and files",
}
# Those that compare with nothing: a picture of their own.
PICTURES = {"async": "The host runs ahead of an accelerator", "allocator": "Memory comes from the cache after the first iteration"}


def charts(text):
    """{section: charts} of the results."""
    found = {}
    for key, section in sections(text).items():
        if key not in SECTIONS:  # no ratios to draw; the tables have it
            continue
        all_tables = tables(section)
        if key == "models":
            wanted = ("vs PyTorch", "vs compile")
            names = [n for n in ("training step", "inference", "peak memory of two training steps") if n in all_tables]
            found[key] = [chart(n.capitalize(), all_tables[n], wanted) for n in names]
        else:
            found[key] = [chart(SECTIONS.get(key, key), all_tables[""])]
    return found


def pages():
    """{page: Markdown text}."""
    text = RESULTS.read_text()
    drawn, told = charts(text), sections(text)
    lines = [INTRO]
    for key, title in SECTIONS.items():
        if key in drawn:
            facts = [line for line in told[key].splitlines() if re.match(r"- (Machine|Libraries|How):", line)]
            lines += [f"## {title}", ""]
            for c in drawn[key]:
                lines += [f"### {c.title}", ""] if len(drawn[key]) > 1 else []
                lines += [f"<figure>{svg(c)}</figure>", ""]
            lines += [*facts, ""]
    for key, title in PICTURES.items():
        if key in told:
            picture, facts = (re.findall(form, told[key], re.M) for form in (r"^!\[.*\)$", r"^- (?:Machine|How):.*$"))
            lines += [f"## {title}", "", *picture, "", *facts, ""]
    # The page stands alone: its link to the folder's README would lead out of the site.
    plain = re.sub(r"<!--.*?-->\n?", "", re.sub(r"\[([^\]]+)\]\([^)]*\.md\)", r"`benchmarks/\1`", text))
    return {"benchmarks/index.md": "\n".join(lines), "benchmarks/tables.md": plain}


def on_config(config):
    """The pages' place in the menu."""
    config.nav.append({"Benchmarks": ["benchmarks/index.md", {"Tables": "benchmarks/tables.md"}]})
    return config


def on_files(files, config):
    """Adds the pages to those of the sources."""
    from mkdocs.structure.files import File

    for name, text in pages().items():
        files.append(File.generated(config, name, content=text))
    for picture in RESULTS.parent.glob("*.png"):
        files.append(File.generated(config, f"benchmarks/{picture.name}", content=picture.read_bytes()))
    return files
