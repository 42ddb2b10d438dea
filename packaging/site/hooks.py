# SPDX-License-Identifier: MIT
"""Pages of the site that are no document of the tree: sources, and manual pages.

A browser downloads a .c, .toml or .yaml file. So each one that a document links to becomes a
page that shows it, and the link leads there. Manual pages are what mandoc makes of the
same files that packages have.
"""

import json
import re
import subprocess
from pathlib import Path, PurePosixPath

from mkdocs.structure.files import File

TOP = Path(__file__).parents[2]
LANGUAGES = {".c": "c", ".h": "c", ".nix": "nix", ".toml": "toml", ".yaml": "yaml", "": "text"}
# A search finds the guides first.
AFTER_GUIDES = "---\nsearch:\n  boost: 0.2\n---\n"
SHIM = re.compile(r"https://[^/\"]+/iframe-worker/shim")
LINK = re.compile(r"\]\(([\w./-]*?(?:\.c|\.h|\.toml|\.yaml|\.nix|LICENSE|PKGBUILD))\)")


def on_files(files, config):
    for name, content in [*sources(files), *manuals(), gallery(files), cast()]:
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown, page, **_):
    source = page.file.src_uri
    if source.startswith("README"):
        page.meta["hide"] = ["navigation"]  # one page: its text may have the width
    return LINK.sub(lambda m: f"]({m[1]}.md)" if linked(source, m[1]) else m[0], markdown)


def on_post_page(output, page, **_):
    """The theme takes from another host what search takes in pages that are opened as files."""
    return SHIM.sub("../" * page.url.count("/") + "iframe-worker.js", output)


def on_post_template(output, **_):
    return SHIM.sub("/iframe-worker.js", output)  # of 404.html, which a server sends


PLOT = re.compile(r"!\[([^]]*)\]\(([\w./-]*plots/([\w-]+\.svg))\)")


def gallery(files):
    """A page with each plot, and the document that says what it shows."""
    shown = {}
    for page in sorted(files.documentation_pages(), key=lambda page: page.src_uri.startswith("docs/plots")):
        title = page.content_string.partition("# ")[2].partition("\n")[0]
        for caption, _, plot in PLOT.findall(page.content_string):
            shown.setdefault(plot, f"## {caption}\n\n![{caption}](../plots/{plot})\n\nFrom [{title}]({relative(page.src_uri)}).\n")
    text = "# Results in pictures\n\n[How to read them](../plots.md). The [first hour](first-hour.md) is also a recording for `asciinema play`: [first-hour.cast](first-hour.cast).\n\n" + "\n".join(shown[plot] for plot in sorted(shown))
    return "docs/results/gallery.md", text


TRANSCRIPT = re.compile(r"<!-- results\b.*?-->\n+(.*?)<!-- end of results -->", re.DOTALL)


def cast():
    """The first hour as an asciicast: what the page has, typed and printed at a reader's pace."""
    text = (TOP / "docs/results/first-hour.md").read_text()
    events, now = [], 0.0
    for block in TRANSCRIPT.findall(text):
        for line in (line[4:] for line in block.rstrip().splitlines()):
            if line.startswith("$ "):
                now += 2
                events.append((now, "\x1b[1m$ "))
                for letter in line[2:]:
                    now += 0.04
                    events.append((now, letter))
                events.append((now + 0.5, "\x1b[0m\r\n"))
                now += 1
            else:
                now += 0.05
                events.append((now, line + "\r\n"))
    if len(events) < 100:
        raise ValueError("docs/results/first-hour.md has no transcripts")
    header = {"version": 2, "width": 170, "height": 40, "title": "isolio: the first hour"}
    lines = [header, *([round(when, 2), "o", what] for when, what in events)]
    return "docs/results/first-hour.cast", "\n".join(map(json.dumps, lines)) + "\n"


def relative(source):
    """A document as a page in docs/results links to it."""
    name = PurePosixPath(source)
    return name.name if name.parent == PurePosixPath("docs/results") else f"../../{source}"


def linked(source, target):
    """Where in the tree the target of a link in the document source is, or None."""
    path = (TOP / PurePosixPath(source).parent / target).resolve()
    if not path.is_file() or TOP not in path.parents:
        return None
    return path.relative_to(TOP)


def sources(files):
    paths = {
        path
        for page in files.documentation_pages()
        for target in LINK.findall(page.content_string)
        if (path := linked(page.src_uri, target))
    }
    for path in sorted(paths):
        text = (TOP / path).read_text(encoding="utf-8")
        name = path.as_posix()
        yield f"{name}.md", f"{AFTER_GUIDES}# {name}\n\n~~~~~~~~ {LANGUAGES[path.suffix]}\n{text}\n~~~~~~~~\n"


def manuals():
    """Each manual page, and the list of them."""
    roff = sorted([*TOP.glob("build/man/man?/*"), *TOP.glob("libaps/man/*.[0-9]")])
    # What is .so alone is another name of a page.
    page_of = {}
    for path in roff:
        so = re.search(r"^\.so .*/(.*)$", path.read_text(encoding="utf-8"), re.M)
        page_of[path.name] = so[1] if so else path.name

    def reference(match):
        page = page_of.get(f"{match[1]}.{match[2]}")
        return f'<a href="../{page}/">{match[0]}</a>' if page else match[0]

    rows = []
    for path in roff:
        if page_of[path.name] != path.name:
            continue
        body = mandoc(path)
        body = re.sub(r"<b>([\w.-]+)(?:</b>)?\((\d)\)(?:</b>)?", reference, body)
        about = re.search(r"## NAME\n+<p[^>]*>(.*?)</p>", body, re.S)[1]
        names, does = re.split(r"\s-\s", re.sub(r"\s+", " ", about), maxsplit=1)
        title = f"{path.stem}({path.suffix[1:]})"
        yield f"man/{path.name}.md", f"# {title}\n\n{body}"
        rows.append((path.parent.name, f"| [{title}]({path.name}.md) | {does} |", f" {names} |"))
    programs = "\n".join(row for folder, row, _ in rows if folder != "man")
    library = "\n".join(row + names for folder, row, names in rows if folder == "man")
    yield "man/pages.md", (
        f"# Manual pages\n\n| page | what it is about |\n|---|---|\n{programs}\n\n"
        f"## libaps\n\n| page | what it is about | functions |\n|---|---|---|\n{library}\n"
    )


def mandoc(path):
    """A page's text, with headings that the table of contents has."""
    # mandoc drops blank lines of code, and makes them of .sp.
    code = re.compile(r"^\.(?:EX|nf)$.*?^\.(?:EE|fi)$", re.M | re.S)
    roff = code.sub(lambda m: re.sub(r"^$", ".sp", m[0], flags=re.M), path.read_text(encoding="utf-8"))
    html = subprocess.run(
        ["mandoc", "-T", "html", "-O", "fragment"], input=roff, check=True, capture_output=True, text=True
    ).stdout
    body = html.split('<div class="manual-text">', 1)[1].rsplit('<table class="foot">', 1)[0].rsplit("</div>", 1)[0]
    body = re.sub(r"</?section[^>]*>|<p class=\"Pp\"></p>", "", body)
    return re.sub(
        r'<h([12]) class="S[hs]"[^>]*>(.*?)</h\1>',
        lambda m: f"\n\n{'#' * (int(m[1]) + 1)} {' '.join(re.sub(r'<[^>]+>', '', m[2]).split())}\n\n",
        body,
        flags=re.S,
    )
