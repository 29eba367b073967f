"""Summary of a partition as text, or as a small table in a notebook."""

from html import escape
from typing import NamedTuple

import numpy as np

from egmm._checks import FloatArray
from egmm._documented import documentation_link
from egmm.belief.decisions import REWARD, chosen_columns
from egmm.belief.focal import FocalSets
from egmm.belief.masses import embed
from egmm.belief.uncertainty import average_nonspecificity

MOST_SETS = 12
"""Number of sets listed; the lightest of the others are summed."""


RULE_WORDS = {"heaviest": "heaviest set", "utility": "expected utility", "dominance": "interval dominance"}


class _Line(NamedTuple):
    name: str
    mass: float
    rows: int


def title(mass: FloatArray, focal: FocalSets) -> str:
    """One line: numbers of rows, clusters and sets."""
    parts = [(len(mass), "row"), (focal.n_clusters, "cluster"), (len(focal), "focal set")]
    return "Credal partition: " + ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in parts)


def as_text(mass: FloatArray, focal: FocalSets, rule: str = "heaviest", reward: float = REWARD) -> str:
    """Title, counts of rows, and a table of the sets."""
    lines = _lines(mass, focal, rule, reward)
    width = max(len(name) for name in [*(line.name for line in lines), "other sets"])
    table = [f"  {'set':<{width}}  mean mass  rows"]
    table += [f"  {line.name:<{width}}  {line.mass:9.3f}  {line.rows:4d}" for line in lines]
    return "\n".join([title(mass, focal), *_counts(mass, focal, rule, reward), *table])


def as_html(mass: FloatArray, focal: FocalSets) -> str:
    """Render the same as HTML, with a bar for the mean mass of each set."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(line.name)}</th><td>{line.rows}</td><td style='text-align:left'>"
        f"<span style='display:inline-block;background:#4878d0;height:.7em;width:{100 * line.mass:.1f}px'></span>"
        f" {line.mass:.3f}</td></tr>"
        for line in _lines(mass, focal, "heaviest", REWARD)
    )
    heading = "<br>".join(escape(line) for line in [title(mass, focal), *_counts(mass, focal, "heaviest", REWARD)])
    return (
        f"<div><p>{heading}</p><table><thead><tr><th>set</th><th>rows</th><th>mean mass</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>{documentation_link('CredalPartition')}</div>"
    )


def _counts(mass: FloatArray, focal: FocalSets, rule: str, reward: float) -> list[str]:
    if len(mass) == 0:
        return []
    columns, family = chosen_columns(mass, focal, rule, reward)
    sizes = family.cardinalities[columns]
    kinds = {"sure": sizes == 1, "open": sizes > 1}
    if focal.has_empty:
        # Without the empty set, outliers are not modelled; "0 outliers" would mislead.
        kinds["outliers"] = sizes == 0
    shares = ", ".join(f"{kind} {rows.sum()} ({100 * rows.mean():.1f} %)" for kind, rows in kinds.items())
    how = f" (reward {reward:g})" if rule == "utility" else ""
    return [
        f"by {RULE_WORDS[rule]}{how}: {shares}",
        f"average nonspecificity: {average_nonspecificity(mass, focal):.3f} (0 precise, 1 vacuous)",
    ]


def _lines(mass: FloatArray, focal: FocalSets, rule: str, reward: float) -> list[_Line]:
    """One line per set in column order; large families list the heaviest and sum the rest."""
    columns, family = chosen_columns(mass, focal, rule, reward)
    means = embed(mass, focal, family).mean(axis=0) if len(mass) else np.zeros(len(family))
    rows = np.bincount(columns, minlength=len(family))
    shown = np.sort(np.argsort(-means, kind="stable")[:MOST_SETS])
    lines = [_Line(family.labels[j], float(means[j]), int(rows[j])) for j in shown]
    if len(family) > MOST_SETS:
        rest = np.setdiff1d(np.arange(len(family)), shown)
        lines.append(_Line("other sets", float(means[rest].sum()), int(rows[rest].sum())))
    return lines
