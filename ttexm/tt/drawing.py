"""A picture of a tensor train, for notebooks."""

MOST = 12  # cores that are drawn; the middle of a longer train is left out


def draw_train(shape: tuple[int, ...], ranks: tuple[int, ...], caption: str) -> str:
    """HTML with an SVG: one circle per core, the mode size below it, the rank on each bond."""
    d = len(shape)
    shown = list(range(d)) if d <= MOST else [*range(MOST // 2), None, *range(d - MOST // 2, d)]
    step, radius, y = 64, 15, 34
    width = step * len(shown) + 10
    parts = []
    for place, k in enumerate(shown):
        x = step * place + step // 2
        if place > 0:
            bond = shown[place - 1] + 1 if k is None else k
            parts.append(_line(x - step + radius, y, x - radius, y))
            parts.append(_text(x - step // 2, y - 6, ranks[bond], 11))
        if k is None:
            parts.append(_text(x, y + 3, "...", 16))
            continue
        parts.append(_line(x, y + radius, x, y + radius + 12))
        parts.append(
            f'<circle cx="{x}" cy="{y}" r="{radius}" fill="currentColor" fill-opacity="0.12" '
            f'stroke="currentColor"/>'
        )
        parts.append(_text(x, y + 4, k + 1, 11))
        parts.append(_text(x, y + radius + 25, f"n={shape[k]}", 11))
    return (
        f'<div><div>{caption}</div><svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
        f'height="84" font-family="sans-serif" role="img" aria-label="{caption}">'
        + "".join(parts)
        + "</svg></div>"
    )


def _line(x1, y1, x2, y2):
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="currentColor"/>'


def _text(x, y, text, size):
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="middle" '
        f'fill="currentColor">{text}</text>'
    )
