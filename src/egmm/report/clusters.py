"""HTML sections that describe the clusters: cards, profiles as a heat map, known classes, rules."""

from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from egmm.belief.decisions import REWARD
from egmm.belief.partition import CredalPartition
from egmm.explanation import Profile, explain, profiles
from egmm.metrics import ari, nmi
from egmm.plotting.style import cluster_colours

MOST_FEATURES = 30
"""Maximum number of features in the table of profiles, those with the largest differences."""

MOST_CLASSES = 20
"""Maximum number of known classes in the cross table, the most frequent ones."""

STRONGEST = 3.0
"""Difference, in within-cluster standard deviations, with the strongest colour."""

MOST_RULES = 8
LEAST_AGREEMENT = 0.5
"""Rules that agree with fewer rows explain too little to be shown."""

MOST_EXPLAINED = 20_000
"""Maximum number of rows for finding rules; a sample if there are more."""

HIGH, LOW = "0, 110, 180", "205, 85, 0"


def clusters_html(
    partition: CredalPartition,
    X: Any,
    names: Sequence[str],
    classes: Any = None,
    rule: str = "heaviest",
    reward: float = REWARD,
) -> str:
    """Sections that describe the clusters; classes are text, empty for rows without one."""
    n_open = np.bincount(partition.labels()[partition.is_open(rule, reward)], minlength=partition.n_clusters)
    found = profiles(partition, X, names)
    parts = [_cards(found, n_open.tolist(), len(partition)), _heat_map(found, names)]
    if classes is not None and np.any(np.asarray(classes) != ""):
        parts.append(_cross_table(partition, np.asarray(classes), rule, reward))
    if partition.n_clusters > 1 and np.isfinite(X).all():
        parts.append(_rules(partition, np.asarray(X), names))
    return "\n".join(parts)


def _section(key: str, title: str, body: str) -> str:
    return f'<section aria-labelledby="h-{key}"><h2 id="h-{key}">{escape(title)}</h2>{body}</section>'


def _swatch(cluster: int, n_clusters: int) -> str:
    colour = "".join(f"{round(255 * part):02x}" for part in cluster_colours(n_clusters)[cluster])
    return f'<span class="swatch" style="background:#{colour}"></span>'


def _cards(found: Sequence[Profile], open_counts: Sequence[int], n_rows: int) -> str:
    cards = []
    for profile, n_open in zip(found, open_counts, strict=True):
        noun = "row" if profile.n_rows == 1 else "rows"
        share = f"{100 * profile.n_rows / max(n_rows, 1):.0f} %"
        doubt = f", {_spaced(n_open)} of them open" if n_open > 0 else ""
        size = f"{_spaced(profile.n_rows)} {noun} ({share}){doubt}"
        cards.append(
            f'<div class="card"><h3>{_swatch(profile.cluster, len(found))}Cluster {profile.cluster + 1}</h3>'
            f"<p><strong>{escape(profile.words)}</strong></p><p>{escape(size)}</p></div>"
        )
    note = (
        '<p class="note">Words compare the mean of a cluster with that of all other rows: at least 0.8 within-cluster '
        "standard deviations, <em>very</em> from 2.5.</p>"
    )
    return _section("clusters", "What the clusters are", f'<div class="cards">{"".join(cards)}</div>{note}')


def _heat_map(found: Sequence[Profile], names: Sequence[str]) -> str:
    differences = np.array([profile.differences for profile in found])
    shown = np.argsort(-np.abs(differences).max(axis=0), kind="stable")[:MOST_FEATURES]
    head = "".join(f"<th>{_swatch(p.cluster, len(found))}{p.cluster + 1}</th>" for p in found)
    lines = []
    for d in shown:
        cells = "".join(_cell(profile, int(d)) for profile in found)
        lines.append(f'<tr><th class="text">{escape(str(names[d]))}</th>{cells}</tr>')
    left = len(names) - len(shown)
    more = f" {left} features with smaller differences are not shown." if left else ""
    note = (
        '<p class="note">Mean ± standard deviation of each cluster, rows weighted by pignistic probability. Blue is '
        f"above the other rows, orange below; stronger colours are larger differences.{more}</p>"
    )
    table = f'<table class="heat"><thead><tr><th>feature</th>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>'
    return _section("profiles", "Profiles", f'<div class="scroll">{table}</div>{note}')


def _cell(profile: Profile, feature: int) -> str:
    difference = float(profile.differences[feature])
    strength = min(abs(difference) / STRONGEST, 1.0) * 0.6
    colour = HIGH if difference > 0 else LOW
    mean, deviation = profile.means[feature], profile.deviations[feature]
    text = "–" if np.isnan(mean) else f"{_number(mean)} ± {_number(deviation)}"
    return f'<td style="background:rgba({colour}, {strength:.2f})" title="{difference:+.1f} deviations">{text}</td>'


def _spaced(count: int) -> str:
    return f"{count:,}".replace(",", "\u202f")


def _number(value: float) -> str:
    """Four digits, without an exponent if readable."""
    return f"{value:.4g}" if abs(value) < 1e4 or abs(value) >= 1e7 else f"{value:.0f}"


class CrossTable(NamedTuple):
    """Known classes against clusters."""

    classes: list[str]
    counts: list[list[int]]
    """For each class its sure rows in each cluster, its open rows, and all its rows."""
    n_classes: int
    """Number of all classes, those that are not listed included."""


def cross_table(partition: CredalPartition, classes: Any, rule: str, reward: float) -> CrossTable:
    """Count the rows of the most frequent classes by cluster; classes are text, empty for rows without one."""
    known = np.flatnonzero(classes != "")
    values, sizes = np.unique(classes[known], return_counts=True)
    listed = sorted(values[np.argsort(-sizes, kind="stable")[:MOST_CLASSES]])
    sure = partition.lower("mass" if rule == "heaviest" else rule, reward)[known]
    counts = []
    for value in listed:
        here = sure[classes[known] == value]
        counts.append([*here.sum(axis=0).tolist(), int((~here.any(axis=1)).sum()), len(here)])
    return CrossTable([str(value) for value in listed], counts, len(values))


def _cross_table(partition: CredalPartition, classes: Any, rule: str, reward: float) -> str:
    found, known, n_clusters = cross_table(partition, classes, rule, reward), classes != "", partition.n_clusters
    head = "".join(f"<th>{_swatch(k, n_clusters)}{k + 1}</th>" for k in range(n_clusters))
    lines = []
    for value, numbers in zip(found.classes, found.counts, strict=True):
        cells = "".join(f"<td>{count or '·'}</td>" for count in numbers)
        lines.append(f'<tr><th class="text">{escape(value)}</th>{cells}</tr>')
    head = f"<tr><th>class</th>{head}<th>open</th><th>all</th></tr>"
    table = f"<table><thead>{head}</thead><tbody>{''.join(lines)}</tbody></table>"
    n_listed = len(found.classes)
    more = f" The {n_listed} most frequent of {found.n_classes} classes." if found.n_classes > n_listed else ""
    labels = partition.labels()[known]
    scores = f"ARI {ari(classes[known], labels):.3f}, NMI {nmi(classes[known], labels):.3f}"
    said = f"Sure rows of each known class by cluster, and open rows.{more}"
    note = f'<p class="note">{said} Agreement of labels and classes: {scores}.</p>'
    return _section("classes", "Known classes and clusters", f'<div class="scroll">{table}</div>{note}')


def class_data(classes: Any, labels: Any, drawn: Any) -> dict[str, Any]:
    """Known classes of the rows drawn, their names, and the colour of the best matching cluster."""
    known = classes != ""
    names, numbers = np.unique(classes[known].astype(str), return_inverse=True)
    n_colours = max(len(names), int(labels.max(initial=0)) + 1)
    together = np.zeros((len(names), n_colours))
    np.add.at(together, (numbers, labels[known]), 1.0)
    chosen = cluster_colours(n_colours)[linear_sum_assignment(-together)[1]]
    colours = ["#" + "".join(f"{round(255 * part):02x}" for part in colour) for colour in chosen]
    return {"classes": classes[drawn].tolist(), "classNames": names.tolist(), "classColours": colours}


def _rules(partition: CredalPartition, X: Any, names: Sequence[str]) -> str:
    some = np.arange(len(X))
    if len(some) > MOST_EXPLAINED:
        some = np.sort(np.random.default_rng(0).choice(some, MOST_EXPLAINED, replace=False))
    if (partition.focal_sets.cardinalities[partition[some].sets()] == 0).all():
        return ""
    found = explain(partition[some], X[some], feature_names=list(names), max_leaves=MOST_RULES)
    agreement = sum(rule.rows * rule.agreement for rule in found.rules) / len(some)
    if agreement < LEAST_AGREEMENT:
        share = f"{100 * agreement:.0f} %"
        note = f"The best {MOST_RULES} rules agree with the sets of only {share} of the rows; they are not shown."
        return _section("rules", "Rules", f'<p class="note">{note}</p>')
    lines = [
        f'<tr><td class="text">{escape(" and ".join(rule.conditions) or "all rows")}</td>'
        f"<td>{escape(rule.label)}</td>"
        f"<td>{rule.rows}</td><td>{100 * rule.agreement:.0f} %</td></tr>"
        for rule in found.rules
    ]
    head = "<tr><th>if</th><th>then</th><th>rows</th><th>agreement</th></tr>"
    table = f"<table><thead>{head}</thead><tbody>{''.join(lines)}</tbody></table>"
    of = f" Found on a sample of {len(some)} rows." if len(some) < len(X) else ""
    note = f'<p class="note">Rules that approximate the partition; several clusters mean “one of these”.{of}</p>'
    return _section("rules", "Rules", f'<div class="scroll">{table}</div>{note}')
