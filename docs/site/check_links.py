#!/usr/bin/env python3
"""Checks the links of a site of HTML pages: check_links.py SITE

Every link within the site must lead to a file and, in a page, to an anchor that is there; nothing may be loaded from
elsewhere (links that a reader follows may lead there). Prints one line a fault and exits 1 when there is one.
"""
import html.parser
import pathlib
import sys
import urllib.parse

LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "object": "data"}


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loads = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors.update(value for key in ("id", "name") if (value := values.get(key)))
        if tag in LOADED and values.get(LOADED[tag]) and values.get("rel") != "canonical":
            self.loads.append(values[LOADED[tag]])
        elif tag in ("a", "area") and values.get("href"):
            self.links.append(values["href"])


def faults(site):
    pages = {path: Page(path.read_text(encoding="utf-8", errors="replace")) for path in sorted(site.rglob("*.html"))}
    if not pages:
        yield f"{site} holds no page"
    for path, page in pages.items():
        where = path.relative_to(site)
        for target in page.loads + page.links:
            parts = urllib.parse.urlsplit(target)
            if parts.scheme or parts.netloc:
                if target in page.loads and parts.scheme not in ("data", "javascript"):
                    yield f"{where}: loads {target} from elsewhere"
                continue
            name = urllib.parse.unquote(parts.path)
            # An error page may be shown for any address, so its links begin at the root.
            found = (site / name.lstrip("/") if name.startswith("/") else path.parent / name) if name else path
            found = pathlib.Path(found.resolve())
            found = found / "index.html" if found.is_dir() else found
            anchor = urllib.parse.unquote(parts.fragment)
            if not found.is_file():
                yield f"{where}: {target} leads to nothing"
            elif anchor and found in pages and anchor not in pages[found].anchors and not anchor.startswith("__"):
                yield f"{where}: {target} leads to no anchor of its page"


def main():
    found = list(faults(pathlib.Path(sys.argv[1]).resolve()))
    print("\n".join(found) if found else "all links lead somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
