"""Checks the built documentation site, in the browser too where Chromium is installed.

    make docs && .venv/bin/python tools/check_site.py [--screenshots FOLDER]

Without a browser: no page loads anything from another host, and the search index has every kind of name. With Chromium: the site is
served on this machine, every request the pages make goes there, a search shows results, and screenshots of the main pages are written.
"""

import argparse
import functools
import http.server
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHOWN = {
    "home": "index.html",
    "guide": "guide/training.html",
    "class": "reference/nn/Linear.html",
    "family": "reference/functions/reductions.html",
    "tensor": "reference/tensor.html",
    "reference": "reference/index.html",
    "gallery": "gallery/index.html",
    "example": "gallery/digits.html",
    "charts": "benchmarks/index.html",
    "search": "show?/index.html?q=cross_entropy",
}
SECONDS = 12  # that a search may take, its index included
SEARCHED = {"cross_entropy": "cross_entropy", "AdamW": "optim.AdamW", "cumsum": "cumsum"}
# What a page loads, in contrast to links that a reader may follow.
_LOADED = re.compile(
    r'<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\b(?:src|srcset)="([^"]*)"|<link\b([^>]*)>|'
    r"""(?:url\(|@import )["']?((?:https?:)?//[^)"']+)"""
)


def outside(text):
    """Addresses on other hosts from which a page or style sheet loads something."""
    found = []
    for source, link, style in _LOADED.findall(text):
        href = re.search(r'href="([^"]*)"', link)
        followed = 'rel="canonical"' in link or 'rel="next"' in link or 'rel="prev"' in link
        found += [a for a in (source, style, "" if followed or not href else href[1]) if re.match(r"(https?:)?//", a)]
    return found


def check_files(site):
    """Returns what is wrong with the files of a site."""
    wrong = []
    for path in [*site.rglob("*.html"), *site.rglob("*.css")]:
        for address in outside(path.read_text()):
            wrong.append(f"{path.relative_to(site)} loads {address}")
    titles = {entry["title"] for entry in json.loads((site / "search" / "search_index.json").read_text())["docs"]}
    titles = {re.sub(r"<.*?>|&.*?;|\\", "", title) for title in titles}
    wrong += [f"the search index lacks {name}" for name in SEARCHED.values() if name not in titles]
    return wrong


# A page within a page, whose loading the server holds up until the search has run; then the results are copied out.
_WAITING = """<!doctype html><body style="margin:0"><iframe src="{page}" width="1400" height="1000" style="border:0"></iframe>
<img src="/wait" hidden><pre id="results" hidden></pre><script>onload = () => {{
  const list = document.querySelector("iframe").contentDocument.querySelector(".md-search-result__list");
  document.querySelector("pre").textContent = list ? list.textContent : "";
}}</script>"""


class _Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/wait":
            time.sleep(SECONDS)
            self.send_error(404)
        elif self.path.startswith("/show?"):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(_WAITING.format(page=self.path.removeprefix("/show?")).encode())
        else:
            super().do_GET()

    def log_message(self, format, *args):
        """Says nothing: the requests are no result."""


def chromium():
    """The browser's program, None where there is none."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def browse(browser, url, *options):
    """Opens a page without a window; returns its text after scripts have run, and the hosts the page asked."""
    with tempfile.TemporaryDirectory() as profile:
        log = Path(profile) / "net.json"
        command = [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", f"--user-data-dir={profile}/user", f"--log-net-log={log}",
            "--dump-dom", *options, url,
        ]  # fmt: skip
        result = subprocess.run(command, capture_output=True, text=True, timeout=180)
        # The browser has requests of its own; those of a page name the page's origin.
        made = [line for line in log.read_text().splitlines() if '"initiator":"http' in line]
        return result.stdout, set(re.findall(r'"url":"https?://([^/"]+)', "\n".join(made)))


def check_in_browser(browser, site, folder):
    """Returns what is wrong when the pages run in a browser; writes screenshots to the folder."""
    handler = functools.partial(_Handler, directory=site)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host = f"127.0.0.1:{server.server_address[1]}"
        wrong = []
        for name, page in SHOWN.items():
            options = [f"--screenshot={folder / name}.png", "--window-size=1400,1000"]
            dark = ["--blink-settings=preferredColorScheme=0"] if name == "charts" else None
            _, hosts = browse(browser, f"http://{host}/{page}", *options)
            if hosts != {host}:
                wrong.append(f"{page} loads from {sorted(hosts)}, expected only {host}")
            if dark:
                browse(browser, f"http://{host}/{page}", f"--screenshot={folder / name}_dark.png", "--window-size=1400,1000", *dark)
        for words, expected in SEARCHED.items():
            text, _ = browse(browser, f"http://{host}/show?/index.html?q={words}")
            if expected not in text.partition('<pre id="results"')[2]:
                wrong.append(f"searching for {words} does not show {expected}")
        server.shutdown()
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--site", type=Path, default=ROOT / "site", help="the folder that make docs wrote")
    parser.add_argument("--screenshots", type=Path, default=ROOT / "build" / "screenshots", help="where the pictures go")
    options = parser.parse_args()
    if not (options.site / "index.html").exists():
        sys.exit(f"{options.site} has no index.html; run make docs first")
    wrong = check_files(options.site)
    browser = chromium()
    if browser:
        options.screenshots.mkdir(parents=True, exist_ok=True)
        wrong += check_in_browser(browser, options.site, options.screenshots)
        print(f"screenshots are in {options.screenshots}")
    else:
        print("Chromium is not installed (apt install chromium): the checks in a browser were not made")
    sys.exit("\n".join(wrong) if wrong else 0)


if __name__ == "__main__":
    main()
