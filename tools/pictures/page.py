"""Takes pictures out of a page of HTML of ours: python3 page.py COUNT <page.html >picture.svg

The first COUNT pictures stand below each other, on white, with the page's style for a light screen.
"""

import re
import sys

GAP = 12
# The style of a page without what is for its text, for dark screens and for the width of a page.
STYLE = re.compile(r"<style>(.*?)</style>", re.S)
WIDTH = re.compile(r"\.picture\{display.*?\}")
DARK = re.compile(r"@media\(prefers-color-scheme:dark\)\{.*?\}\}\n", re.S)
PICTURE = re.compile(r'<svg viewBox="0 0 ([0-9.]+) ([0-9.]+)".*?</svg>', re.S)


def main():
    page = sys.stdin.read()
    style = WIDTH.sub("", DARK.sub("", STYLE.search(page).group(1)))
    patterns = re.search(r'<svg class="patterns".*?</svg>', page, re.S)
    body, width, top = patterns.group(0) if patterns else "", 0.0, float(GAP)
    for found in list(PICTURE.finditer(page))[: int(sys.argv[1])]:
        wide, high = float(found.group(1)), float(found.group(2))
        inner = re.sub(r"^<svg ", f'<svg x="{GAP}" y="{top:g}" height="{high:g}" ', found.group(0))
        body += inner + "\n"
        width, top = max(width, wide + 2 * GAP), top + high + GAP
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {top:g}" width="{width:g}">\n'
        f'<style>{style}</style>\n<rect width="{width:g}" height="{top:g}" fill="#fff" style="fill:#fff"/>\n'
        f"{body}</svg>"
    )


main()
