"""Draws what a terminal shows: python3 screen.py <captured >picture.svg

Standard input is what `tmux capture-pane -e -p` prints: lines of text with the sequences for colours.
"""

import re
import sys
from html import escape

WIDTH, HEIGHT, MARGIN = 8.0, 18, 12
# Browsers keep these spaces.
NO_BREAK = "\u00a0"
DARK, LIGHT = "#0d1117", "#e6edf3"
COLOURS = ["#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4"]


def runs(line, style):
    """Pieces of a line: the column, the text and the style (colour, bold, reversed) of each."""
    column = 0
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if not part.startswith("\x1b"):
            if part:
                yield column, part, dict(style)
            column += len(part)
            continue
        codes = [int(code or 0) for code in part[2:-1].split(";")]
        if codes[:2] == [38, 5] and codes[2] < 16:
            style["colour"] = COLOURS[codes[2] % 8]
            continue
        for code in codes:
            if code == 0:
                style.clear()
            elif code == 1:
                style["bold"] = True
            elif code == 7:
                style["reversed"] = True
            elif code == 27:
                style.pop("reversed", None)
            elif 30 <= code <= 37:
                style["colour"] = COLOURS[code - 30]
            elif code == 39:
                style.pop("colour", None)


def piece(row, column, text, style):
    """A run as SVG; its columns are where a terminal has them, whatever the font is."""
    x, y = MARGIN + column * WIDTH, MARGIN + row * HEIGHT
    ink, ground = style.get("colour", LIGHT), None
    if style.get("reversed"):
        ink, ground = DARK, ink
    svg = ""
    if ground:
        box = f'x="{x:g}" y="{y:g}" width="{len(text) * WIDTH:g}" height="{HEIGHT}"'
        svg += f'<rect {box} fill="{ground}"/>\n'
    if text.strip():
        bold = ' font-weight="bold"' if style.get("bold") else ""
        svg += (
            f'<text x="{x:g}" y="{y + 13:g}" textLength="{len(text) * WIDTH:g}" fill="{ink}"{bold}>'
            f"{escape(text).replace(' ', NO_BREAK)}</text>\n"
        )
    return svg


def main():
    lines = sys.stdin.read().rstrip("\n").split("\n")
    style, body, widest = {}, "", 0
    for row, line in enumerate(lines):
        for column, text, how in runs(line, style):
            body += piece(row, column, text, how)
            widest = max(widest, column + len(text))
    width, height = widest * WIDTH + 2 * MARGIN, len(lines) * HEIGHT + 2 * MARGIN
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'font-family="ui-monospace,monospace" font-size="13.3">\n'
        f'<rect width="{width:g}" height="{height:g}" rx="6" fill="{DARK}"/>\n{body}</svg>'
    )


main()
