"""The style sheet and the script of a report, which stand in its one file. The script only sorts tables: without it
everything can be read.
"""

from __future__ import annotations

import base64
import hashlib

from edgefl.study.report.looks import DARK, DASHES, LIGHT

PLAIN = """
:root{color-scheme:light dark;--ink:#1f2328;--soft:#59636e;--paper:#fff;--panel:#f6f8fa;--rule:#d1d9e0;
--accent:#0060a8;--warn:#fff4d6;--warn-ink:#5c4400}
*{box-sizing:border-box}
body{margin:0 auto;max-width:80rem;padding:1rem;background:var(--paper);color:var(--ink);
font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
h1{font-size:1.6rem;line-height:1.25;margin:.4rem 0;overflow-wrap:anywhere}
h2{font-size:1.25rem;margin:2rem 0 .5rem;padding-bottom:.2rem;border-bottom:1px solid var(--rule)}
h3{font-size:1.05rem;margin:1.4rem 0 .4rem;overflow-wrap:anywhere}
p,li{max-width:48rem;overflow-wrap:anywhere}
.soft{color:var(--soft);margin:.2rem 0}
a{color:var(--accent)}
a:focus-visible,summary:focus-visible,button:focus-visible,.scroll:focus-visible{outline:2px solid var(--accent);
outline-offset:2px}
.skip{position:absolute;left:-99rem}
.skip:focus{position:static}
nav ul{display:flex;flex-wrap:wrap;gap:.2rem 1rem;list-style:none;padding:0;margin:.6rem 0}
.warning{background:var(--warn);color:var(--warn-ink);padding:.6rem .6rem .6rem 1.8rem;border-radius:6px}
.scroll{overflow-x:auto;margin:.8rem 0;max-width:100%}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}
caption{max-width:calc(100vw - 2rem);text-align:left;font-weight:600;padding:.2rem 0;color:var(--ink)}
th,td{padding:.25rem .7rem .25rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--rule)}
thead th{color:var(--soft);font-weight:600;vertical-align:bottom}
tbody th{font-weight:500}
th,td{max-width:26rem;overflow-wrap:break-word}
.number{text-align:right;white-space:nowrap}
thead .number{white-space:normal}
th button{all:unset;cursor:pointer;color:inherit;font:inherit}
th[aria-sort=ascending] button::after{content:" \\2191"}
th[aria-sort=descending] button::after{content:" \\2193"}
tbody tr:hover{background:var(--panel)}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),1fr));gap:1.2rem}
figure{margin:0;padding:.6rem;background:var(--panel);border-radius:8px;min-width:0;break-inside:avoid;max-width:40rem}
figcaption{font-weight:600;margin-bottom:.3rem;overflow-wrap:anywhere}
.figures{margin:.8rem 0}
figure>svg{display:block;width:100%;height:auto}
details{margin:.5rem 0}
summary{cursor:pointer;color:var(--accent)}
.legend{display:flex;flex-wrap:wrap;gap:.1rem 1rem;list-style:none;margin:.3rem 0;padding:0;font-size:.85rem}
.legend li{display:flex;align-items:center;gap:.35rem}
.sample{width:26px;height:14px;flex:none}
svg text{fill:var(--soft);font-size:11px;paint-order:stroke;stroke:var(--panel);stroke-width:3px}
.middle{text-anchor:middle}
.end{text-anchor:end}
.grid{stroke:var(--rule);stroke-width:.6;fill:none}
.axis{stroke:var(--soft);stroke-width:1;fill:none}
.zero{stroke:var(--soft);stroke-width:1;stroke-dasharray:3 3;fill:none}
.line{fill:none;stroke:var(--c);stroke-width:1.8;stroke-linejoin:round;vector-effect:non-scaling-stroke}
.band{fill:var(--c);opacity:.18;stroke:none}
.mark{fill:var(--c);stroke:var(--panel);stroke-width:.6}
.interval{stroke:var(--accent);stroke-width:1.8;fill:none}
.mean{fill:var(--accent)}
footer{margin-top:2rem;border-top:1px solid var(--rule);padding-top:.5rem}
@media print{body{max-width:none;padding:0;font-size:10pt}nav,.skip,details:not([open]){display:none}
.scroll{overflow:visible}
figure{border:1px solid var(--rule)}h2,h3,caption{break-after:avoid}tr{break-inside:avoid}
.figures{grid-template-columns:repeat(2,1fr)}}
"""
DARK_VARIABLES = (
    "--ink:#e6edf3;--soft:#9aa5b1;--paper:#0d1117;--panel:#161b22;--rule:#30363d;--accent:#6cb6ff;--warn:#3a2f10;"
    "--warn-ink:#f2d98b"
)
SCRIPT = """
for (const table of document.querySelectorAll(".sortable table")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  const value = (row, i) => row.cells[i].textContent.trim();
  const compare = (a, b) => {
    const [x, y] = [parseFloat(a.replace(",", "")), parseFloat(b.replace(",", ""))];
    if (isNaN(x) !== isNaN(y)) return isNaN(x) ? 1 : -1;
    return isNaN(x) ? a.localeCompare(b) : x - y;
  };
  heads.forEach((head, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
      body.append(...[...body.rows].sort((a, b) => sign * compare(value(a, i), value(b, i))));
    });
  });
}
"""


def _colours(colours: tuple[str, ...]) -> str:
    return "".join(f"--c{i}:{colour};" for i, colour in enumerate(colours))


def _style() -> str:
    lines = "".join(f".c{i}{{--c:var(--c{i})}}" for i in range(len(LIGHT)))
    dashes = "".join(f".line.d{i}{{stroke-dasharray:{dash}}}" for i, dash in enumerate(DASHES) if dash)
    dark = f"@media (prefers-color-scheme:dark){{@media screen{{:root{{{DARK_VARIABLES};{_colours(DARK)}}}}}}}"
    return f"{PLAIN}:root{{{_colours(LIGHT)}}}{lines}{dashes}{dark}\n"


STYLE = _style()


def policy() -> str:
    """Return the content security policy of the page: its own style and script by their hashes, and nothing else."""
    own = f"style-src '{_hash(STYLE)}'; script-src '{_hash(SCRIPT)}'"
    return f"default-src 'none'; {own}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
