"""The gallery of the documentation site: every script in examples/, with its pictures and its source.

    python docs/gen_gallery.py                 runs the examples and writes small copies of their pictures to docs/gallery
    python docs/gen_gallery.py --from FOLDER   takes the pictures from a folder the examples wrote to (--output FOLDER)
"""

import argparse
import ast
import functools
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXAMPLES, PICTURES = ROOT / "examples", ROOT / "docs" / "gallery"
WIDEST = 900


@functools.cache
def scripts():
    """{page name: script}, the examples first and then the scripts written for PyTorch."""
    own = {path.stem: path for path in sorted(EXAMPLES.glob("*.py"))}
    torch = {f"pytorch_{path.stem}": path for path in sorted((EXAMPLES / "scripts_for_pytorch").glob("*.py"))}
    return own | torch


def pictures(name):
    """The pictures of an example, the result before the learning curve."""
    found = sorted(PICTURES.glob(f"{name}*.png"), key=lambda path: ("curve" in path.stem, path.name))
    others = [other for other in scripts() if other != name and other.startswith(name)]
    return [path for path in found if not path.stem.startswith(tuple(others))]


def told(path):
    """(title, the rest) of a script's docstring."""
    doc = ast.get_docstring(ast.parse(path.read_text())) or ""
    title, _, rest = doc.partition("\n")
    return title.rstrip(".:"), rest.strip()


def _body(text):
    """A docstring's text: what is indented is a command."""
    blocks = [b for b in text.split("\n\n") if b.strip()]
    return "\n\n".join(f"```sh\n{b.strip()}\n```" if b.startswith("    ") or b.startswith("python ") else b for b in blocks)


def page(name, path):
    """The page of one example."""
    title, rest = told(path)
    lines = [f"# {path.name}", "", f"{title}.", "", _body(rest), ""]
    lines += [f"![{title}]({picture.name})\n" for picture in pictures(name)]
    return "\n".join([*lines, "## Source", "", "```python", path.read_text().rstrip(), "```", ""])


def _card(name, path):
    shown = pictures(name)[:1]
    image = f'<img src="{shown[0].name}" alt="" loading="lazy">' if shown else ""
    return f'<a class="card" href="{name}.html">{image}<b>{path.name}</b><span>{told(path)[0]}.</span></a>'


def pages():
    """{page: Markdown text} of the gallery."""
    found = scripts()
    own = [_card(name, path) for name, path in found.items() if path.parent == EXAMPLES]
    torch = [_card(name, path) for name, path in found.items() if path.parent != EXAMPLES]
    index = [
        "# Gallery",
        "",
        "The scripts in `examples/`, with the pictures they draw. `make dev` installs what they need.",
        "",
        f'<div class="cards">{"".join(own)}</div>',
        "",
        "## Scripts written for PyTorch",
        "",
        "These import `torch` and run unmodified with `python -m flambeau script.py`.",
        "",
        f'<div class="cards">{"".join(torch)}</div>',
        "",
    ]
    return {"gallery/index.md": "\n".join(index), **{f"gallery/{name}.md": page(name, path) for name, path in found.items()}}


def on_config(config):
    """The gallery's place in the menu."""
    own = [{path.name: f"gallery/{name}.md"} for name, path in scripts().items() if path.parent == EXAMPLES]
    torch = [{path.name: f"gallery/{name}.md"} for name, path in scripts().items() if path.parent != EXAMPLES]
    config.nav.insert(2, {"Gallery": ["gallery/index.md", *own, {"Scripts written for PyTorch": torch}]})
    return config


def on_files(files, config):
    """Adds the pages to those of the sources."""
    from mkdocs.structure.files import File

    for name, text in pages().items():
        files.append(File.generated(config, name, content=text))
    return files


def shrink(source, target):
    """A picture of at most WIDEST pixels and 128 colours."""
    from PIL import Image

    image = Image.open(source).convert("RGB")
    if image.width > WIDEST:
        image = image.resize((WIDEST, round(image.height * WIDEST / image.width)), Image.Resampling.LANCZOS)
    image.quantize(128, dither=Image.Dither.NONE).save(target, optimize=True)


def draw(folder):
    """Runs every example that draws; tour.py names its option differently."""
    for path in sorted(EXAMPLES.glob("*.py")):
        if ".png" in path.read_text():
            option = "--output" if '"--output"' in path.read_text() else "--out"
            subprocess.run([sys.executable, path, option, folder], check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="folder", type=Path, help="take the pictures from this folder")
    folder = parser.parse_args().folder
    with tempfile.TemporaryDirectory() as scratch:
        if folder is None:
            folder = Path(scratch)
            draw(folder)
        PICTURES.mkdir(exist_ok=True)
        for picture in sorted(folder.glob("*.png")):
            shrink(picture, PICTURES / picture.name)
            print(f"wrote {PICTURES / picture.name}")
