"""The report in a real browser: what a person sees, points at and switches."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egmm import EGMM, select_model
from egmm.datasets import make_diamond, make_four_class
from egmm.em.covariance import MODELS
from egmm.report import write_report

HOSTILE = ["<script>window.hit = 1</script>", "</script><img src=x onerror='window.hit = 1'>", "a & \"b\" 'c'"]
SIZES = [(390, 800), (1400, 900)]


@pytest.fixture(scope="module")
def fitted() -> tuple[Any, Any]:
    X, _ = make_four_class(400, random_state=2)
    X = np.concatenate([X, [[30.0, 30.0]]])  # one outlier
    return EGMM(4, random_state=0).fit(X[:-1]), X


@pytest.fixture(scope="module")
def report(fitted: tuple[Any, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    model, X = fitted
    return write_report(tmp_path_factory.mktemp("report") / "report.html", model, X, title="Four classes")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)) + 6.0 * (np.arange(60) % 2)[:, None]
    model = EGMM(2, random_state=0).fit(X)
    path = tmp_path_factory.mktemp("hostile") / "report.html"
    return write_report(path, model, X, feature_names=HOSTILE, title=HOSTILE[0], reproduce=HOSTILE[1])


@pytest.fixture
def page_of(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a file at a width; the page must not complain in the console, nor ask for anything."""
    opened, complaints = [], []

    def open_page(path: Path, width: int = 1400, height: int = 900, **options: Any) -> Any:
        page = browser.new_page(viewport={"width": width, "height": height}, **options)
        opened.append(page)
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: complaints.append(request.url) if request.url.startswith("http") else None)
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready=true]")
        # Not wait_for_function, which evaluates text in the page: its policy forbids that.
        page.wait_for_selector("#scatter[data-drawn]")
        return page

    yield open_page
    for page in opened:
        page.close()
    assert complaints == []


def settle(page: Any) -> None:
    """Wait until what was asked for is drawn."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def pixels(page: Any) -> str:
    settle(page)
    return str(page.evaluate("document.getElementById('scatter').toDataURL()"))


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_opens_at_phone_and_desktop_width_in_light_and_dark(
    page_of: Any, report: Path, width: int, height: int, scheme: str
) -> None:
    page = page_of(report, width, height, color_scheme=scheme)
    assert page.title() == "Four classes"
    assert "EGMM found 4 clusters" in page.inner_text("#words")
    # Nothing sticks out to the side, and the plot has room.
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("#scatter").bounding_box()["width"] > 0.6 * min(width, 1000)
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    is_dark = int(ground.split("(")[1].split(",")[0]) < 128
    assert is_dark == (scheme == "dark")


def test_theme_button_switches_the_page(page_of: Any, report: Path) -> None:
    page = page_of(report, color_scheme="light")
    light = pixels(page)
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    assert pixels(page) != light


@pytest.mark.parametrize("options", [{}, {"color_scheme": "dark"}], ids=["light", "dark"])
def test_prints_dark_on_white_with_its_colours_and_whole_tables(page_of: Any, report: Path, options: Any) -> None:
    page = page_of(report, **options)
    before = pixels(page)
    # What the canvas holds while the page is printed.
    page.evaluate("addEventListener('afterprint', () => { window.printed = window.shown; })")
    page.evaluate(
        "addEventListener('beforeprint', () => { window.shown = document.getElementById('scatter').toDataURL(); })"
    )
    page.pdf()
    printed = page.evaluate("window.printed")
    assert printed == pixels(page_of(report))
    assert pixels(page) == before

    page.emulate_media(media="print")
    for selector in ("#legend .swatch", "#sets-table .bar-cell"):
        adjust = page.locator(selector).first.evaluate("node => getComputedStyle(node).printColorAdjust")
        assert adjust == "exact", selector  # browsers leave out backgrounds else
    for box in page.locator(".tall").all():
        assert box.evaluate("node => node.clientHeight >= node.scrollHeight")
    assert not page.locator("#theme").is_visible()


def test_pointing_at_a_row_shows_its_masses(page_of: Any, report: Path, fitted: tuple[Any, Any]) -> None:
    model, X = fitted
    page = page_of(report)
    page.click("#objects-table tbody tr >> nth=0")  # brings the row into view and rings it
    page.wait_for_timeout(600)  # the smooth scrolling
    first = int(page.inner_text("#objects-table tbody tr:first-child td:first-child"))
    shown = {
        line.locator("span").nth(0).inner_text(): float(line.locator(".value").inner_text())
        for line in page.locator("#object .mass").all()
    }
    mass = model.predict_mass(X[first - 1 : first])[0]
    expected = {name: m for name, m in zip(model.focal_sets_.labels, mass, strict=True) if m >= 0.0005}
    assert f"Row {first}" in page.inner_text("#object")
    assert shown == pytest.approx(expected, abs=6e-4)
    box = page.locator("#scatter").bounding_box()
    before = page.inner_text("#object strong")
    seen = set()
    for share in np.linspace(0.1, 0.9, 30):
        page.mouse.move(box["x"] + share * box["width"], box["y"] + 0.7 * box["height"])
        seen.add(page.inner_text("#object strong"))
    assert len(seen | {before}) > 5


def test_slider_leaves_the_doubtful_rows(page_of: Any, report: Path, fitted: tuple[Any, Any]) -> None:
    model, X = fitted
    page = page_of(report)
    doubt = 1 - model.predict_proba(X).max(axis=1)
    before = pixels(page)
    page.fill("#threshold", "40")
    settle(page)
    expected = int((doubt >= 0.4 * 0.75).sum())
    assert page.inner_text("#threshold-text").startswith(f"0.30: {expected} rows")
    assert int(page.get_attribute("#scatter", "data-drawn")) == expected
    assert 0 < expected < len(X)
    assert pixels(page) != before


@pytest.mark.parametrize("control", ["#show-lower", "#show-upper", "#show-ellipses", "#show-outliers"])
def test_toggles_change_the_picture_and_change_it_back(page_of: Any, report: Path, control: str) -> None:
    page = page_of(report)
    before = pixels(page)
    page.click(control)
    assert pixels(page) != before
    page.click(control)
    assert pixels(page) == before


def test_legend_and_hulls_follow_the_rule(page_of: Any, fitted: tuple[Any, Any], tmp_path: Path) -> None:
    model, X = fitted
    pictures = []
    for rule in ("heaviest", "dominance"):
        page = page_of(write_report(tmp_path / f"{rule}.html", model, X, rule=rule))
        page.check("#show-lower")
        pictures.append(pixels(page))
        n_open = sum(int(text.split("}")[1]) for text in page.inner_text("#legend").split("\n") if "," in text)
        assert n_open == model.partition(X).is_open(rule).sum()
    assert pictures[0] != pictures[1]


def test_axes_zoom_and_legend_change_the_picture(page_of: Any, report: Path) -> None:
    page = page_of(report)
    pictures = [pixels(page)]
    page.select_option("#axis-x", label="x2")
    pictures.append(pixels(page))
    page.click("#zoom-in")
    pictures.append(pixels(page))
    drawn = int(page.get_attribute("#scatter", "data-drawn"))
    page.click("#legend button >> nth=0")
    pictures.append(pixels(page))
    assert len(set(pictures)) == 4
    assert int(page.get_attribute("#scatter", "data-drawn")) < drawn
    assert page.get_attribute("#legend button >> nth=0", "aria-pressed") == "false"


@pytest.mark.parametrize("table", ["#objects-table", "#sets-table"])
def test_tables_sort_both_ways(page_of: Any, report: Path, table: str) -> None:
    page = page_of(report)
    header = page.locator(f"{table} thead button", has_text="row").first
    column = header.evaluate("b => [...b.closest('tr').children].indexOf(b.closest('th'))")

    def numbers() -> list[int]:
        return [int(text) for text in page.locator(f"{table} tbody td:nth-child({column + 1})").all_inner_texts()]

    for expected in ("descending", "ascending"):
        header.click()
        assert header.evaluate("b => b.closest('th').getAttribute('aria-sort')") == expected
        assert numbers() == sorted(numbers(), reverse=expected == "descending")
    assert len(set(numbers())) > 2


def test_numbers_far_from_zero_are_told_apart(page_of: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([1.7e9 + rng.normal(0, 40, 60), 2020 + rng.normal(0, 0.4, 60)]) + [[0, 0], [400, 3]] * 30
    model = EGMM(2, random_state=0).fit(X)
    model.log_likelihood_history_ = np.array([-14_523_456.7, -14_523_401.2, -14_523_400.9])  # as of a million rows
    page = page_of(write_report(tmp_path / "far.html", model, X))
    cells = page.locator("#means-table tbody td").all_inner_texts()
    np.testing.assert_allclose(np.array(cells, dtype=float).reshape(2, 3)[:, 1:] - model.means_, 0, atol=0.5)
    ticks = page.locator("#history-chart text").all_text_contents()
    heights = [text for text in ticks if text.startswith("-14")]
    assert len(heights) == len(set(heights)) > 2
    page.locator("#scatter").focus()
    page.keyboard.press("ArrowRight")
    facts = page.locator("#object dd").all_inner_texts()
    np.testing.assert_allclose(np.array(facts, dtype=float) - X[0], 0, atol=0.5)


def test_numbers_beyond_single_precision_are_shown(page_of: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(60, 2)) + [[0, 0], [9, 9]] * 30) * [1e60, 1e-60]
    model = EGMM(2, random_state=0).fit(X)
    page = page_of(write_report(tmp_path / "extreme.html", model, X))
    page.locator("#scatter").focus()
    page.keyboard.press("ArrowRight")
    facts = np.array(page.locator("#object dd").all_inner_texts(), dtype=float)
    np.testing.assert_allclose(facts, X[0], rtol=1e-2)


def test_ellipses_are_drawn_whole(page_of: Any, tmp_path: Path) -> None:
    X, _ = make_diamond()  # two standard deviations reach beyond the rows
    model = EGMM(2, reg_covar=0.01, random_state=0).fit(X)
    page = page_of(write_report(tmp_path / "diamond.html", model, X))
    settle(page)
    # Along the upper edge of the plot, 12 pixels from the canvas's: lines of the grid are grey.
    edge = page.evaluate("[...document.getElementById('scatter').getContext('2d').getImageData(0, 13, 5000, 1).data]")
    colours = np.array(edge).reshape(-1, 4)[:, :3]
    assert np.ptp(colours, axis=1).max() < 40


def test_ellipses_are_seen_among_many_rows(page_of: Any, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(20_000, 2)) + [30.0, 0.0] * (np.arange(20_000) % 2)[:, None]
    page = page_of(write_report(tmp_path / "many.html", EGMM(2, random_state=0).fit(X), X))
    colours = "new Uint32Array(scatter.getContext('2d').getImageData(0, 0, scatter.width, scatter.height).data.buffer)"
    settle(page)
    page.evaluate(f"window.shown = {colours}")
    page.click("#show-ellipses")
    settle(page)
    changed = page.evaluate(f"{colours}.reduce((count, colour, at) => count + (colour !== shown[at]), 0)")
    assert changed > 3500  # pixels; a line alone, in the colour of its rows, changes 2200


def test_small_numbers_are_told_beside_an_outlier(page_of: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) * 0.1 + [[0.0, 0.0], [1.234, 5.678]] * 30
    model = EGMM(2, random_state=0).fit(X)
    page = page_of(write_report(tmp_path / "wide.html", model, np.concatenate([X, [[1e6, 1e6]]])))
    cells = page.locator("#means-table tbody td").all_inner_texts()
    np.testing.assert_allclose(np.array(cells, dtype=float).reshape(2, 3)[:, 1:], model.means_, rtol=1e-3)


@pytest.mark.parametrize("width", [360, 375])
def test_lines_of_tables_are_alike_and_nothing_leaves_its_panel_on_a_phone(
    page_of: Any, report: Path, width: int
) -> None:
    page = page_of(report, width=width)
    heights = page.evaluate("[...document.querySelectorAll('#sets-table tbody tr')].map((line) => line.clientHeight)")
    assert max(heights) - min(heights) <= 2
    assert (
        page.evaluate("[...document.querySelectorAll('p, pre')].filter((p) => p.scrollWidth > p.clientWidth).length")
        == 0
    )


def test_the_outlier_is_listed(page_of: Any, report: Path) -> None:
    page = page_of(report)
    lines = page.locator("#objects-table tbody tr", has_text="yes").all_inner_texts()
    assert any(line.startswith("401\t") for line in lines)


def test_everything_is_reached_by_keyboard(page_of: Any, report: Path) -> None:
    page = page_of(report)
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert {"theme", "axis-x", "axis-y", "threshold", "show-lower", "show-upper", "scatter"} <= reached
    page.focus("#scatter")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#object strong") == "Row 1"
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#object strong") == "Row 2"


def test_hostile_names_stay_text(page_of: Any, hostile: Path) -> None:
    page = page_of(hostile, 390)
    assert page.evaluate("window.hit") is None
    assert page.inner_text("h1") == HOSTILE[0]
    assert page.locator("#axis-x option").all_inner_texts()[:3] == HOSTILE
    assert page.inner_text("#reproduce") == HOSTILE[1]
    page.focus("#scatter")
    page.keyboard.press("ArrowRight")
    assert page.locator("#object dt").all_inner_texts() == HOSTILE
    assert page.locator("img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_selection_is_drawn_with_the_best_ringed(page_of: Any, tmp_path: Path) -> None:
    X, _ = make_four_class(200, random_state=0)
    selection = select_model(X, range(2, 5), ("EEE", "EII"), random_state=0)
    page = page_of(write_report(tmp_path / "report.html", selection.best, X, selection=selection))
    assert page.locator("#selection-chart polyline").count() == 2
    assert page.locator("#selection-chart circle[r='9']").count() == 1
    assert page.locator("#history-chart polyline").count() == 1


@pytest.fixture(scope="module")
def many_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    X, _ = make_four_class(120, random_state=0)
    selection = select_model(X, [2, 3], MODELS, random_state=0, max_iter=5)
    return write_report(tmp_path_factory.mktemp("models") / "report.html", selection.best, X, selection=selection)


def test_of_many_models_each_line_is_named_and_one_stands_out(page_of: Any, many_models: Path) -> None:
    page = page_of(many_models)
    names = page.locator("#selection-chart .series text")
    assert sorted(names.all_text_contents()) == sorted(MODELS)
    tops = sorted(box["y"] for box in (name.bounding_box() for name in names.all()))
    assert min(np.diff(tops)) > 10  # no name over another
    colours = page.eval_on_selector_all("#selection-chart .series", "all => all.map(g => getComputedStyle(g).color)")
    assert sorted(colours.count(colour) for colour in set(colours)) == [1, 13]
    # Pointing at a name, or coming to it by keyboard, lights its line and tells its value.
    names.get_by_text("EEV", exact=True).hover()
    assert page.text_content("#selection-chart .series.lit text") == "EEV"
    assert "EEV, number of clusters 3: -" in page.inner_text("#selection-chart")
    page.focus("#selection-chart .series >> nth=0")
    assert page.text_content("#selection-chart .series.lit text") == MODELS[0]


def test_text_of_charts_is_legible_on_a_phone(page_of: Any, many_models: Path) -> None:
    page = page_of(many_models, 390, 800)
    for chart in ("#selection-chart", "#history-chart"):
        for text in page.locator(f"{chart} svg text").all():
            assert text.bounding_box()["height"] >= 11
    page.set_viewport_size({"width": 800, "height": 600})
    settle(page)
    assert page.locator("#history-chart svg").bounding_box()["width"] > 390


def test_zoom_buttons_are_not_over_rows(page_of: Any, report: Path) -> None:
    page = page_of(report, 390, 800)
    assert page.locator("#zoom-in").bounding_box()["y"] + 30 < page.locator("#scatter").bounding_box()["y"]


def test_a_finger_moves_the_page_or_what_is_enlarged(page_of: Any, report: Path) -> None:
    page = page_of(report, 390, 800, has_touch=True)
    page.locator("#scatter").scroll_into_view_if_needed()
    fingers = page.context.new_cdp_session(page)

    def drag(down: float) -> tuple[float, bool]:
        """How far the page went, and whether the picture changed, no row being chosen by it."""
        box = page.locator("#scatter").bounding_box()
        x, y = box["x"] + box["width"] - 40, box["y"] + box["height"] / 2
        before, at = pixels(page), page.evaluate("scrollY")
        page.screenshot()  # Shown at last: where fingers scroll is decided by what is on the screen.
        fingers.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
        for step in range(1, 11):
            point = {"x": x, "y": y + down * step / 10}
            fingers.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [point]})
        fingers.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        page.wait_for_timeout(300)
        return page.evaluate("scrollY") - at, pixels(page) != before

    scrolled, _ = drag(-120)
    assert scrolled > 50
    page.click("#zoom-in")
    chosen = page.inner_text("#object")
    assert drag(-120) == (0, True)
    assert page.inner_text("#object") == chosen
    page.click("#zoom-reset")
    assert drag(-60)[0] > 20


def test_one_feature_is_drawn_against_doubt(page_of: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, 50), rng.normal(5, 1, 50)])[:, None]
    page = page_of(write_report(tmp_path / "report.html", EGMM(2, random_state=0).fit(X), X))
    assert page.evaluate("document.getElementById('axis-y').selectedOptions[0].textContent") == "doubt"
    assert int(page.get_attribute("#scatter", "data-drawn")) == 100


@pytest.mark.parametrize("n_clusters", [1, 2])
def test_directions_are_named_once_and_explained(page_of: Any, tmp_path: Path, n_clusters: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)) + 6.0 * (np.arange(60) % 2)[:, None]
    page = page_of(write_report(tmp_path / "report.html", EGMM(n_clusters, random_state=0).fit(X), X))
    names = page.eval_on_selector_all("#axis-x option", "options => options.map(option => option.textContent)")
    assert len(names) == len(set(names))
    told = page.inner_text("#scatter-help")
    assert ("discriminant 1" in names, "Discriminants" in told) == (n_clusters > 1,) * 2
    assert "principal component 1" in names
    assert "Principal components" in told


@pytest.mark.slow
def test_a_hundred_thousand_rows_stay_responsive(page_of: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, 10)) + 5.0 * rng.integers(3, size=100_000)[:, None]
    model = EGMM(3, random_state=0).fit(X)
    path = write_report(tmp_path / "report.html", model, X)
    assert path.stat().st_size < 6e6
    page = page_of(path)
    assert "sample of 20\u202f000 of 100\u202f000 rows" in page.inner_text("#sampled")
    milliseconds = page.evaluate(
        """async () => {
             const slider = document.getElementById('threshold'), began = performance.now();
             for (let step = 1; step <= 20; step++) {
               slider.value = step;
               slider.dispatchEvent(new Event('input'));
               await new Promise(requestAnimationFrame);
             }
             return (performance.now() - began) / 20;
           }"""
    )
    assert milliseconds < 200
