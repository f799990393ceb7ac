"""The review page in a browser: questions, answers, undo, layout, contrast, and other sites."""

import json
import os
import re
import shutil
from importlib import metadata
from itertools import product
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pandas as pd
import pytest

from dm2l.labels._rules import LabelRules
from dm2l.review import Journal, ReviewSession
from dm2l.review._server import ReviewServer
from dm2l.tables import FitOptions, audit_table, fit_table, read_table, table_from_frame
from half_labelled import as_csv, make_table, spell

pytestmark = pytest.mark.slow

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ENDING = "_told_by_the_customer_of_this_ticket"  # names that are wider than a column


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A table and a model of it."""
    columns, truth, observed = make_table(80, blank=0.5)
    columns["note"] = ["<img src=x onerror=\"document.title='run'\"><b>bold</b>"] * 80
    labels = {name + ENDING: cells for name, cells in spell(truth, observed, "Yes", "No").items()}
    path = tmp_path_factory.mktemp("page") / "tickets.csv"
    path.write_text(as_csv(columns, labels), encoding="utf-8")
    table = read_table(path, "topic_*")
    return table, fit_table(table, FitOptions("linear", 0.1, 0.3, cv=3), estimate_folds=0)


@pytest.fixture
def review(case, tmp_path):
    """Open a session behind a server; both end with the test."""
    running = []

    def start(sample=None, case=case, **options):
        table, model = case
        session = ReviewSession(model, table, Journal(tmp_path / "a.jsonl", table), **options)
        if sample is not None:
            session.start_sample(sample)
        server = ReviewServer(session, output=tmp_path / "out.csv")
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()

        def end():
            server.shutdown()
            thread.join()
            server.server_close()
            session.wait(60)
            session.close()

        server.session, server.end = session, end
        running.append(server)
        return server

    yield start
    for server in running:
        server.end()


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if tuple(map(int, metadata.version("playwright").split(".")[:2])) < (1, 65):
        pytest.skip("older playwright evaluates text in the page, which the page's policy forbids")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"no browser is installed: none of {', '.join(BROWSERS)}; run make browser")
    # Inside a container, where one is root, Chromium's sandbox cannot be set up.
    options = ["--no-sandbox"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=options)
        context = chromium.new_context(viewport={"width": 1366, "height": 768})
        yield context
        chromium.close()


@pytest.fixture
def page(browser):
    page = browser.new_page()
    page.set_default_timeout(20_000)  # others may share the machine
    page.problems, page.asked_for = [], []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("request", lambda request: page.asked_for.append(request.url))
    yield page
    assert page.problems == []
    page.close()


def visit(page, server):
    page.goto(server.url)
    page.wait_for_selector("#question:visible")


def shown(page):
    """Name of the row and label on the page."""
    return page.inner_text("#name"), page.locator("#asked bdi").last.text_content()


def wait_for(page, place, words):
    """Wait until an element says this."""
    page.wait_for_function(
        "([place, words]) => document.getElementById(place).textContent.includes(words)",
        arg=[place, words],
    )


def press(page, key, decided, suggested):
    """Press a key and wait until the page counts it."""
    page.keyboard.press(key)
    wait_for(page, "count", f"{decided} of {suggested}:")


def test_a_person_answers_by_keyboard_and_a_lost_server_is_told(review, page, tmp_path):
    said = {}
    running = review(top=25)
    visit(page, running)
    name, label = shown(page)
    row = running.session.question().row
    assert name == f"T{9999 + row}"
    assert page.inner_text("#row") == f"row {row}"
    assert page.inner_text("#asked") == f"Does {name} have {label}?"
    for k in range(5):
        key = "yns"[k % 3]
        said[shown(page)] = {"y": "yes", "n": "no", "s": "skip"}[key]
        name, label = shown(page)
        press(page, key, k + 1, 25)
        word = said[name, label].replace("skip", "skipped")
        line = page.text_content("#said").replace("\u2068", "").replace("\u2069", "")
        assert line == f"Saved for {name}: {label} is {word}."
    assert page.inner_text("#count") == "5 of 25: 4 saved, 1 skipped"
    page.keyboard.press("e")
    wait_for(page, "export-state", "4 labels to")
    seen = "document.getElementById('export-state').getBoundingClientRect().bottom"
    assert page.evaluate(f"{seen} <= window.innerHeight")
    with page.expect_download() as download:
        page.click("#download")
    assert download.value.suggested_filename == "out.csv"
    assert Path(download.value.path()).read_bytes() == (tmp_path / "out.csv").read_bytes()
    running.end()
    lost = shown(page)
    page.keyboard.press("y")
    page.wait_for_selector("#problem:visible")
    assert "does not answer" in page.inner_text("#problem")
    assert shown(page) == lost  # not counted, and said so
    assert page.inner_text("#count").startswith("5 of 25")
    found = running.session.journal.decisions
    assert {(f"T{9999 + row}", label): made.answer for (row, label), made in found.items()} == said


def test_a_key_held_down_on_a_button_answers_once(review, page):
    running = review(top=20)
    visit(page, running)
    page.click("[data-answer=yes]")
    wait_for(page, "count", "1 of 20:")
    page.keyboard.down("Enter")  # the new question's button has the focus
    for _ in range(8):
        page.keyboard.down("Enter")  # a second time is a repetition
    page.keyboard.up("Enter")
    wait_for(page, "count", "2 of 20:")
    press(page, "n", 3, 20)


def test_going_back_refitting_and_the_end_on_the_page(review, page):
    running = review(top=6)
    visit(page, running)
    asked = []
    for k in range(4):
        asked.append(shown(page))
        press(page, "y", k + 1, 6)
    page.keyboard.press("ArrowLeft")
    wait_for(page, "said", "You answered yes.")
    page.keyboard.press("u")
    wait_for(page, "name", asked[2][0])
    assert shown(page) == asked[2]
    assert page.get_attribute("[data-answer=yes]", "aria-pressed") == "true"
    page.keyboard.press("n")
    wait_for(page, "said", "is no.")
    assert shown(page) == asked[3]
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.getElementById('said').textContent === ''")
    following = shown(page)  # another one, perhaps: predictions for the row have changed
    assert following not in asked
    page.keyboard.press("r")
    page.wait_for_selector("#quality:visible")
    assert "with 4 answers" in page.inner_text("#quality-text")
    rows = page.locator("#measures tr").all_inner_texts()
    assert any(row.startswith("macro AUC") for row in rows)
    assert shown(page) == following  # what is on the page does not change under one's fingers
    page.click("[data-answer=no]")
    wait_for(page, "count", "5 of 6:")
    press(page, "s", 6, 6)
    page.wait_for_selector("#end:visible")
    page.keyboard.press("y")  # there is nothing to answer
    page.keyboard.press("e")
    wait_for(page, "export-state", "5 labels")
    expected = dict.fromkeys(asked, "yes") | {asked[2]: "no", following: "no"}
    made = running.session.journal.decisions.items()
    said = {(f"T{9999 + row}", label): answer for (row, label), (answer, _) in made}
    assert {key: word for key, word in said.items() if word != "skip"} == expected


def test_a_row_is_answered_in_one_go_and_a_label_error_is_corrected(review, page):
    running = review()
    visit(page, running)
    assert "→" in page.inner_text("#open")
    assert not page.locator("#more").is_visible()
    page.keyboard.press("2")
    page.wait_for_selector("#whole:visible")
    name = page.inner_text("#name")
    names = page.locator("#missing th").all_text_contents()
    before = page.locator("#missing tr td:nth-child(2)").all_inner_texts()
    page.keyboard.press("y")
    page.wait_for_function("() => !document.querySelector('#missing td:nth-child(2)').textContent")
    after = page.locator("#missing tr td:nth-child(2)").all_inner_texts()
    assert len(names) > 1
    assert after[1:] != before[1:]
    assert page.inner_text("#marked") == f"1 of {len(names)} answered, not saved yet"
    assert running.session.progress.decided == 0
    page.keyboard.press("Enter")
    wait_for(page, "said", f"{name}\u2069: 1 saved, {len(names) - 1} skipped.")
    journal = running.session.journal
    words = [journal.decisions[int(name[1:]) - 9999, label].answer for label in names]
    assert words == ["yes", *["skip"] * (len(names) - 1)]
    page.keyboard.press("3")
    page.wait_for_selector("#observed:visible:has-text('The label in the table is')")
    name, label = shown(page)
    said = page.inner_text("#observed").removesuffix(".").split()[-1]
    # No bar: the probability of an error is not that of a yes.
    assert not page.locator(".scale").is_visible()
    wrong = running.session.question(None, "label_errors").error_probability
    found = page.inner_text("#probability")
    assert found.startswith("The model contradicts this label,")
    assert wrong > 0.995
    assert found.endswith("is wrong with probability over 99%.")
    page.keyboard.press("n" if said == "yes" else "y")
    wait_for(page, "said", f"Saved for \u2068{name}\u2069")
    ((key, made),) = journal.checks.items()
    assert key == (int(name[1:]) - 9999, label)
    assert {said, made.answer} == {"yes", "no"}


def test_a_search_for_label_errors_is_told_and_a_mode_begins_at_the_top(review, page, monkeypatch):
    go_on, search = Event(), ReviewSession._find_label_errors
    slow = lambda session: go_on.wait(60) and search(session)  # noqa: E731
    monkeypatch.setattr(ReviewSession, "_find_label_errors", slow)
    running = review()
    page.set_viewport_size({"width": 390, "height": 600})
    visit(page, running)
    page.evaluate("() => scrollTo(0, document.body.scrollHeight)")
    page.keyboard.press("2")
    page.wait_for_selector("#whole:visible")
    page.wait_for_function("() => window.scrollY === 0")
    page.keyboard.press("3")
    page.wait_for_selector("#end:visible")
    assert page.inner_text("#end-head") == "Searching for label errors"
    go_on.set()
    page.wait_for_selector("#observed:visible")


def test_a_sample_is_checked_without_seeing_predictions(review, page):
    running = review(sample=4)
    visit(page, running)
    assert page.inner_text("#count") == "0 of 4 of the sample"
    for place in ("#prediction", "#value", "#open li", "#learnt"):
        assert page.locator(place).filter(visible=True).count() == 0
    assert not any("for yes" in note for note in page.locator("dt small").all_inner_texts())
    for k in range(4):
        # Neither a refit nor the agreement of answers with the model, in any mode.
        page.keyboard.press("r")
        page.keyboard.press("1")
        page.wait_for_selector("[data-queue=entries][aria-pressed=true]")
        assert not page.is_visible("#learnt")
        page.keyboard.press("4")
        page.wait_for_selector("[data-queue=sample][aria-pressed=true]")
        page.keyboard.press("n")
        wait_for(page, "count", f"{k + 1} of 4 of the sample")
    assert running.session.refit_state.number == 0
    assert page.is_visible("#learnt")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("[data-answer=no][aria-pressed=true]")
    assert shown(page)[1] == [*running.session.journal.sample.entries][3][1]
    page.keyboard.press("y")
    page.wait_for_selector("#end:visible")
    assert "The sample is complete. Filled with yes: " in page.inner_text("#end-text")
    assert "Next, press Ctrl-C in the terminal." in page.inner_text("#end-text")


def test_tags_with_positives_only_are_asked_in_words_also_as_suspected_errors(review, page):
    rng = np.random.default_rng(0)
    x, found = rng.normal(size=120), rng.random((120, 2)) < 0.6
    tags = np.array(["chess", "go"])
    found &= np.stack([x > 0, x < 0.5], axis=1)
    cells = [", ".join(tags[row]) or None for row in found]
    table = table_from_frame(pd.DataFrame({"x": x, "uses": cells}), ["uses"], split=",")
    options = FitOptions("linear", 0.1, 0.3, cv=2, missing_as="unlabelled")
    running = review(case=(table, fit_table(table, options, estimate_folds=0)))
    visit(page, running)
    asked = r"Does row \d+ have the tag (chess|go) \(uses\)\?"
    assert re.fullmatch(asked, page.inner_text("#asked"))
    page.keyboard.press("3")
    page.wait_for_selector("[data-queue=label_errors][aria-pressed=true]")
    page.wait_for_selector("#question:visible")
    first = running.session.question(None, "label_errors")
    found = audit_table(running.session.model, table)
    assert (first.row, first.label) == (found.row[0], found.label[0])
    assert page.inner_text("#observed") == "The table has no answer."
    likely = f"It is an overlooked yes with probability {found.probability[0]:.0%}."
    assert page.inner_text("#probability") in (likely, likely.replace("100%", "over 99%"))
    page.keyboard.press("y")
    wait_for(page, "said", f"Saved for \u2068row {first.row}\u2069")
    assert running.session.labels()[first.row - 1, table.label_names.index(first.label)] == 1


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A table with a yes/no label, columns with several values, and 30 columns of features."""
    rng, n = np.random.default_rng(0), 90
    x = rng.normal(size=(n, 30))
    frame = pd.DataFrame(x.round(4), columns=[f"measured_quantity_{j}" for j in range(30)])
    frame["child"] = np.where(x[:, 0] > 0.6, "yes", "no")
    frame["size"] = np.array(["S", "M", "L"])[np.digitize(x[:, 1], [-0.5, 0.5])]
    frame["place"] = np.array(["air", "land", "sea"])[np.digitize(x[:, 2], [-0.5, 0.5])]
    names = ["child", "size", "place"]
    frame[names] = frame[names].mask(rng.random((n, 3)) < 0.3)
    path = tmp_path_factory.mktemp("graded") / "t.csv"
    frame.to_csv(path, index=False)
    table = read_table(path, names, values="size=S<M<L")
    return table, fit_table(table, FitOptions("linear", 0.1, 1.0, cv=3), estimate_folds=0)


def test_questions_with_several_values_show_values_and_explain_their_numbers(page, review, graded):
    running = review(case=graded)
    table = graded[0]
    visit(page, running)
    while page.inner_text("#asked").startswith("Does"):
        before = page.text_content("#count")
        page.keyboard.press("s")
        page.wait_for_function(
            "(before) => document.getElementById('count').textContent !== before", arg=before
        )
    notes = page.locator("dt small").all_inner_texts()
    assert any(note.startswith("influence: ") for note in notes)
    assert not any(note.startswith("for ") for note in notes)
    assert "Influence: how far the value" in page.inner_text("#weights")
    page.click("#value summary")
    why = page.inner_text("#why")
    assert " in this row, " in why
    assert "other missing labels" not in why
    question = running.session.question()
    parts = question.prediction
    assert f"{float(f'{parts.own + parts.row:.2g}'):g} in this row" in why
    # In a whole row, and beside another question, the most probable value has its probability.
    page.keyboard.press("2")
    page.wait_for_selector("#whole:visible")
    entry = running.session.question(queue="rows")
    shown_p = dict(
        zip(
            page.locator("#missing th").all_inner_texts(),
            page.locator("#missing tr td:nth-child(2)").all_inner_texts(),
            strict=True,
        )
    )
    several = [one for one in entry.others if one.state == "open" and one.choices]
    assert several
    for one in several:
        value, p = max(one.choices, key=lambda choice: choice[1])
        assert shown_p[one.name] == f"{value} {100 * p:.0f}%"
    n_cells = sum(int(table.cells[name].isna().sum()) for name in table.cells)
    assert f" of {n_cells}:" in page.inner_text("#count")


def open_rows(page, server):
    """Open the mode for whole rows with a click, and return the names of the labels asked for."""
    visit(page, server)
    page.click("[data-queue=rows]")
    page.wait_for_selector("#whole:visible")
    return page.locator("#missing tr").evaluate_all("lines => lines.map((one) => one.dataset.name)")


def click_first(page, word):
    """Click an answer to the first label, and wait until it counts."""
    page.locator(f"#missing tr:first-child [data-word={word}]").click()
    page.wait_for_selector(f"#missing tr:first-child [data-word={word}][aria-pressed=true]")


def test_enter_saves_a_row_after_clicks(review, page):
    running = review()
    names = open_rows(page, running)
    page.keyboard.press("y")  # while the button that was clicked is that of the mode
    page.wait_for_selector("#missing tr:first-child [data-word=yes][aria-pressed=true]")
    click_first(page, "no")
    page.keyboard.press("Enter")
    wait_for(page, "said", f"1 saved, {len(names) - 1} skipped.")
    answers = [answer for answer, _ in running.session.journal.decisions.values()]
    assert answers.count("no") == 1
    # A button that was reached by keyboard answers with Enter.
    page.locator("#missing tr:first-child [data-word=skip]").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#missing tr:first-child [data-word=skip][aria-pressed=true]")
    assert len(running.session.journal.decisions) == len(names)


def test_a_row_without_answers_is_skipped_only_if_that_is_confirmed(review, page):
    running = review()
    names = open_rows(page, running)
    page.keyboard.press("Enter")
    wait_for(page, "marked", "No label is answered. Save again to skip them all.")
    assert running.session.progress.decided == 0
    click_first(page, "yes")
    page.keyboard.press("ArrowUp")
    assert page.inner_text("#marked").startswith("1 of ")
    page.keyboard.press("Enter")
    wait_for(page, "said", f"1 saved, {len(names) - 1} skipped.")
    page.keyboard.press("Enter")
    wait_for(page, "marked", "No label is answered.")
    page.click("#save")
    wait_for(page, "said", ": 0 saved, ")


@pytest.mark.parametrize("leave", ["1", "3", "ArrowLeft"])
def test_answers_to_a_row_are_not_discarded_in_silence(review, page, leave):
    running = review()
    open_rows(page, running)
    click_first(page, "yes")
    page.keyboard.press("Enter")
    wait_for(page, "said", "1 saved, ")
    click_first(page, "no")
    page.keyboard.press(leave)
    wait_for(page, "marked", "1 answer is not saved.")
    assert page.locator("#missing tr:first-child [data-word=no][aria-pressed=true]").count() == 1
    page.keyboard.press("e")
    wait_for(page, "export-state", "without the unsaved answers to this row")
    page.keyboard.press(leave)
    gone = "() => !document.querySelector('#missing [data-word=no][aria-pressed=true]')"
    page.wait_for_function(gone)
    if leave == "ArrowLeft":  # saved answers are no reason to ask
        page.wait_for_selector("#missing [data-word=yes][aria-pressed=true]")
        page.keyboard.press("ArrowRight")
        page.wait_for_function("() => !document.querySelector('#missing [aria-pressed=true]')")


COVERED = """(button) => {
    button.scrollIntoView({ block: "center" });
    const box = button.getBoundingClientRect();
    const top = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
    return !button.contains(top);
}"""


def test_on_a_phone_the_buttons_of_a_row_stay_in_their_card_and_can_be_seen(page, review, graded):
    page.set_viewport_size({"width": 390, "height": 844})
    names = open_rows(page, review(case=graded))
    while {"size", "place"} - {*names}:
        page.keyboard.press("s")
        page.wait_for_selector("#missing [aria-pressed=true]")
        page.click("#save")
        page.wait_for_function("() => !document.querySelector('#missing [aria-pressed=true]')")
        names = page.locator("#missing tr").evaluate_all(
            "all => all.map((one) => one.dataset.name)"
        )
    card = page.locator("#question").bounding_box()
    for button in page.locator("#question button:visible").all():
        box = button.bounding_box()
        assert box["x"] >= card["x"] + 8
        assert box["x"] + box["width"] <= card["x"] + card["width"] - 8
        assert not button.evaluate(COVERED)


@pytest.mark.parametrize("mode", ["1", "2", "3", "4"])
def test_on_a_phone_the_question_and_its_buttons_are_on_the_first_screen(
    page, review, graded, mode
):
    running = review(case=graded, sample=6)
    page.set_viewport_size({"width": 390, "height": 844})
    visit(page, running)
    page.keyboard.press(mode)
    page.wait_for_selector(f"[data-queue][aria-pressed=true][aria-keyshortcuts='{mode}']")
    page.wait_for_selector("#question:visible")
    place = "#missing button" if mode == "2" else "#answers button"
    for element in (page.locator("#asked"), page.locator(place).first):
        box = element.bounding_box()
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= 844
    assert page.evaluate("window.scrollY") == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_values_are_buttons_and_what_follows_is_shown(page, review, tmp_path):
    frame = pd.DataFrame(
        {"x": np.arange(60) // 2 / 2, "child": "no", "parent": "no", "stage": "low"}
    )
    frame.loc[20:, ["parent", "stage"]] = "yes", "mid"
    frame.loc[40:, ["child", "stage"]] = "yes", "high"
    frame.loc[::7, ["child", "parent", "stage"]] = None
    frame.to_csv(tmp_path / "t.csv", index=False)
    table = read_table(tmp_path / "t.csv", ["child", "parent", "stage"])
    options = FitOptions("linear", 0.1, 0.3, cv=3, rules=LabelRules([("child", "parent")]))
    model = fit_table(table, options, estimate_folds=0)
    running = review(case=(table, model))
    visit(page, running)
    for _ in range(27):
        if page.inner_text("#asked").startswith("Which value of stage does row "):
            break
        before = page.text_content("#count")
        page.keyboard.press("s")
        page.wait_for_function(
            "(before) => document.getElementById('count').textContent !== before", arg=before
        )
    assert page.locator("#answers button").count() == 4
    assert page.locator("#prediction").filter(visible=True).count() == 0
    row = int(page.inner_text("#name").removeprefix("Row "))
    page.keyboard.press("m")  # the first free letter of mid
    wait_for(page, "said", "is mid.")
    assert running.session.labels()[row - 1, 2:].tolist() == [0, 0, 1]  # high, low, mid
    page.keyboard.press("2")
    page.wait_for_selector("#whole:visible")
    line = page.locator("#missing tr[data-name=child]")
    line.locator("[data-word=yes]").click()
    follows = page.locator("#missing tr[data-name=parent] button.follows")
    follows.wait_for()
    assert follows.inner_text() == "yes"
    page.click("#save")
    wait_for(page, "said", "1 saved, ")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("#missing [data-word=yes][aria-pressed=true]")
    assert "parent" in page.text_content("#others")
    assert "yes, by rules" in page.text_content("#others")


# Parts of a name that end in a line in which they did not begin.
BROKEN = """() => [...document.querySelectorAll("bdi")].flatMap((name) => [...name.childNodes])
    .filter((part) => part.nodeType === Node.TEXT_NODE).filter((part) => {
        const range = document.createRange();
        range.selectNode(part);
        return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1;
    }).map((part) => part.textContent)"""


def test_the_page_fits_loads_nothing_from_elsewhere_and_runs_no_text(review, page):
    running = review()
    sizes, colours = ((1366, 768), (380, 740)), {"light": 255, "dark": 20}
    for (width, height), scheme in product(sizes, colours):
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme)
        visit(page, running)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        back = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        assert back.startswith(f"rgb({colours[scheme]}, ")
        about, asked, answers, beside = (
            page.locator(place).bounding_box()
            for place in ("#about", "#asked", "#answers", "#beside")
        )
        # The answers are on the screen without scrolling, and so is the beginning of the row.
        assert about["y"] < 0.4 * height
        assert max(box["y"] + box["height"] for box in (asked, answers)) <= height
        if width > 1000:
            assert about["y"] + about["height"] <= height
            assert about["x"] < asked["x"]
        else:
            assert about["y"] < beside["y"]
            page.evaluate("() => scrollTo(0, document.body.scrollHeight)")
            box = page.locator("#answers").bounding_box()
            assert 0 < box["y"] < box["y"] + box["height"] <= height
        for mode in "21":
            assert page.evaluate(BROKEN) == []
            page.keyboard.press(mode)
            page.wait_for_selector("#whole:visible" if mode == "2" else "#prediction:visible")
    assert '<img src=x onerror="document.title=' in page.inner_text("#about")
    assert page.locator("#about img, #about b").count() == 0
    assert "Review \u2068tickets.csv" in page.title()
    own = [url for url in page.asked_for if not url.startswith("data:")]
    assert own
    assert all(url.startswith(running.url) for url in own)


# The lowest contrast of a visible text with the colour behind it, and the text.
CONTRAST = """() => {
    const light = (colour) => {
        const [r, g, b] = colour.map((x) => x / 255)
            .map((x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const parts = (text) => text.match(/[\\d.]+/g).map(Number);
    const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const [r, g, b, alpha = 1] = parts(getComputedStyle(at).backgroundColor);
            if (alpha === 1) return light([r, g, b]);
            if (alpha) throw new Error("a background is not opaque");
        }
    };
    const found = [];
    for (const element of document.body.querySelectorAll("*")) {
        const style = getComputedStyle(element);
        const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        if (!own || !element.checkVisibility() || element.closest(":disabled")) continue;
        let opacity = 1;
        for (let at = element; at; at = at.parentElement) opacity *= getComputedStyle(at).opacity;
        const value = opacity < 1 ? 0 : ratio(light(parts(style.color)), behind(element));
        found.push([value, element.textContent]);
    }
    const at = document.activeElement;
    const outline = getComputedStyle(at);
    if (at.matches(":focus-visible")) {
        const value = ratio(light(parts(outline.outlineColor)), behind(at.parentElement));
        found.push([outline.outlineStyle === "none" ? 0 : 1.5 * value, "focus"]);  // 3 is enough
    }
    return found.sort((a, b) => a[0] - b[0])[0];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_state_is_readable(review, page, scheme):
    running = review()
    page.emulate_media(color_scheme=scheme)
    visit(page, running)
    page.keyboard.press("y")
    wait_for(page, "count", "1 of")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("[data-answer=yes][aria-pressed=true]")
    lowest = {}

    def look(place):
        lowest[place] = page.evaluate(CONTRAST)

    for place in ("[data-answer][aria-pressed=true]", "[data-queue][aria-pressed=true]"):
        page.hover(place)
        look(place)
        page.focus(place)
        look(f"{place} in focus")
    for place in ("[data-answer=no]", "#refit", "#download", "summary >> visible=true"):
        page.hover(place)
        look(place)
    page.keyboard.press("2")
    page.wait_for_selector("#whole:visible")
    page.locator("#missing [data-word=yes]").first.click()  # and the pointer stays on it
    page.wait_for_selector("#missing [aria-pressed=true]")
    look("row")
    page.keyboard.press("Tab")
    look("row in focus")
    assert {place: found for place, found in lowest.items() if found[0] < 4.5} == {}
    assert min(found[0] for found in lowest.values()) < 21  # something was measured


def test_a_page_of_another_origin_can_neither_read_nor_answer(review, page):
    running = review()
    entry = running.session.question()
    # A page elsewhere, which even knows the address; the browser is told not to look it up.
    page.route("http://elsewhere.example/", lambda route: route.fulfill(body="<p>hello</p>"))
    page.goto("http://elsewhere.example/")
    answers = {entry.label: "yes"}
    body = json.dumps({"row": entry.row, "answers": answers, "queue": "entries"})
    script = """async ([url, body, type]) => {
        try {
            const options = body ? {method: "POST", body, headers: {"Content-Type": type}} : {};
            const reply = await fetch(url, options);
            return reply.status;
        } catch (error) { return String(error); }
    }"""
    for kind in ("application/json", "text/plain"):
        assert "TypeError" in page.evaluate(script, [f"{running.url}answer", body, kind])
    assert "TypeError" in page.evaluate(script, [f"{running.url}state", "", ""])
    assert running.session.progress.decided == 0
