"""The page of a run in a browser: what it shows, and what clicks, keys, themes and sizes do. Runs are made_run's."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.request import urlopen

import pytest

from tests.browser.chromium import Chromium, Tab, status_of
from tests.server import made_run
from tests.server.page.shown import ShownRun

ROWS = "#body tr:not([hidden])"
TOKEN = "a-token-of-32-characters-or-more!"


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShownRun]:
    """The page of a run of six clients and six rounds that is over."""
    run = ShownRun(tmp_path_factory.mktemp("ended"))
    made_run.made_run(run.path, clients=6, rounds=6)
    run.show()
    yield run
    run.close()


def opened(tab: Tab, run: ShownRun, clients: int = 6) -> Tab:
    """The page, loaded."""
    tab.open(run.url)
    tab.wait(f"document.querySelectorAll('#body tr').length === {clients}")
    return tab


def running(tab: Tab, shown: ShownRun) -> Tab:
    """The page of a run whose third round is open: client 0 has replied, clients 1 and 2 are waited for."""
    made_run.made_run(shown.path, rounds=2, done=False)
    made_run.open_round(shown.path, 3, (0, 1, 2), answered=(0,))
    made_run.alive(shown.path, 3, {0: "replied", 1: "training", 2: "awaited, away", 3: "idle"})
    tab.open(shown.show())
    tab.wait("document.querySelectorAll('#body tr').length === 4")
    return tab


def column(tab: Tab, heading: str) -> list[str]:
    """The cells that are shown under a heading, top to bottom."""
    at = tab.texts("#head th").index(heading)
    return list(tab.js(f"[...document.querySelectorAll('{ROWS}')].map((row) => row.children[{at}].textContent)"))


def heading(text: str) -> str:
    keys = {"Absent": "absent", "Late": "late", "Median round": "median_seconds", "Device": "client"}
    return f"#head th[data-key={keys[text]}] button"


def names(tab: Tab) -> list[str]:
    return column(tab, "Device")


# What it shows.


def test_the_tiles_say_how_far_the_run_is(tab: Tab, ended: ShownRun) -> None:
    opened(tab, ended)
    assert tab.text("#rounds") == "6 of 6"
    assert tab.text("#state") == "over"
    assert tab.text("#count-more") == "6 of 6 enrolled"
    accepted = sum(made_run.outcome(k, r) == "accepted" for k in range(6) for r in range(1, 7))
    assert tab.text("#replies") == f"{accepted} accepted"
    assert tab.text("#bytes") == "12 kB"
    assert tab.js("document.title") == "6/6 · " + ended.path.name + " · edgefl"


def test_every_device_is_a_row(tab: Tab, ended: ShownRun) -> None:
    opened(tab, ended)
    assert names(tab) == [f"client {client}" for client in range(6)]
    assert column(tab, "Median round") == ["1 s", "2 s", "3 s", "4 s", "5 s", "6 s"]
    assert column(tab, "Absent") == ["1", "2", "2", "1", "0", "0"]
    assert column(tab, "Why")[0] == "round 4: no reply by the time the round was closed"


def test_markup_in_what_a_device_says_is_text(tab: Tab, ended: ShownRun) -> None:
    opened(tab, ended)
    assert column(tab, "Version")[3] == made_run.HOSTILE
    assert tab.js("document.querySelectorAll('#body img, #body b').length") == 0
    assert tab.js("window.hit === undefined")


def test_nothing_is_asked_of_another_origin(tab: Tab, ended: ShownRun) -> None:
    opened(tab, ended)
    tab.click(heading("Absent"))
    assert len(tab.requests) >= 3
    assert [url for url in tab.requests if not url.startswith((ended.url, "data:"))] == []


def test_the_policy_lets_no_script_in_that_is_not_the_pages(tab: Tab, ended: ShownRun) -> None:
    opened(tab, ended)
    tab.js("document.body.insertAdjacentHTML('beforeend', '<img src=\"/none\" onerror=\"window.hit = 1\">')")
    tab.wait("document.images[0].complete")
    assert tab.js("window.hit === undefined")
    assert any("Content Security Policy" in problem for problem in tab.problems)
    tab.problems.clear()


def test_who_is_waited_for_is_named_and_marked(tab: Tab, shown: ShownRun) -> None:
    running(tab, shown)
    assert tab.texts("#waiting button") == ["client 1", "client 2"]
    assert tab.text("#open").startswith("round 3: 2 devices, open for ")
    assert tab.js("[...document.querySelectorAll('[data-waited]')].map((row) => row.dataset.client).join()") == "1,2"
    assert column(tab, "Does") == ["replied", "training", "awaited, away", "idle"]


def test_a_run_without_rounds_says_so(tab: Tab, shown: ShownRun) -> None:
    made_run.made_run(shown.path, rounds=2, done=False)
    made_run.alive(shown.path, 1, {}, waiting="waiting for enrolments: 1 of 4; not enrolled yet: 1, 2, 3")
    tab.open(shown.show())
    tab.wait("document.querySelector('#open').textContent.startsWith('waiting for enrolments: 1 of 4')")


def test_a_device_that_refused_says_why(tab: Tab, shown: ShownRun) -> None:
    made_run.made_run(shown.path, rounds=2, done=False)
    made_run.refuse(shown.path, 2, "the model has 9 MB; this device has 8 MB")
    made_run.alive(shown.path, 3, {2: "refused"})
    tab.open(shown.show())
    tab.wait("document.querySelector('[data-refused]')")
    assert column(tab, "Why")[2] == "the model has 9 MB; this device has 8 MB"


# Clicks.


def test_a_click_on_a_heading_sorts_and_a_second_click_turns_the_order(tab: Tab, ended: ShownRun) -> None:
    opened(tab, ended)
    tab.click(heading("Absent"))
    assert tab.js("document.querySelector('[data-key=absent]').getAttribute('aria-sort')") == "ascending"
    assert names(tab) == [f"client {client}" for client in (4, 5, 0, 3, 1, 2)]
    tab.click(heading("Absent"))
    assert tab.js("document.querySelector('[data-key=absent]').getAttribute('aria-sort')") == "descending"
    assert names(tab) == [f"client {client}" for client in (1, 2, 0, 3, 4, 5)]
    assert tab.js("document.querySelectorAll('[aria-sort]').length") == 1


def test_the_filter_takes_an_id_or_words(tab: Tab, shown: ShownRun) -> None:
    made_run.made_run(shown.path, clients=20)
    shown.show()
    opened(tab, shown, clients=20)
    tab.click("#filter")
    tab.type("1")
    tab.wait("document.querySelector('#shown').textContent === '1 of 20 devices'")
    assert names(tab) == ["client 1"]
    tab.press("Escape")
    tab.wait("document.querySelector('#shown').textContent === '20 of 20 devices'")
    tab.type("0.1.2")
    tab.wait("document.querySelector('#shown').textContent === '6 of 20 devices'")
    assert names(tab) == [f"client {client}" for client in (2, 5, 8, 11, 14, 17)]


@pytest.mark.parametrize(
    ("kind", "clients"), [("waited", [1, 2]), ("away", [2]), ("trouble", [1, 2, 3]), ("all", [0, 1, 2, 3])]
)
def test_the_list_shows_a_part_of_the_devices(tab: Tab, shown: ShownRun, kind: str, clients: list[int]) -> None:
    running(tab, shown)
    choice = f"const s = document.querySelector('#show'); s.value = '{kind}'; s.dispatchEvent(new Event('change'))"
    tab.js(f"(() => {{ {choice} }})()")
    tab.wait(f"document.querySelector('#shown').textContent === '{len(clients)} of 4 devices'")
    assert names(tab) == [f"client {client}" for client in clients]


def test_a_click_on_who_is_waited_for_shows_its_row(tab: Tab, shown: ShownRun) -> None:
    running(tab, shown)
    tab.click("#waiting button:nth-of-type(2)")
    assert names(tab) == ["client 2"]
    assert tab.js("document.activeElement.id") == "filter"


# Keys.


def test_a_heading_is_reached_and_pressed_by_keys(tab: Tab, ended: ShownRun) -> None:
    opened(tab, ended)
    tab.js("document.querySelector('.scroll').focus()")
    for _ in range(5):
        tab.press("Tab")
    assert tab.js("document.activeElement.textContent") == "Median round"
    tab.press("Enter")
    tab.press("Enter")
    assert names(tab)[0] == "client 5"
    assert tab.js("document.activeElement.textContent") == "Median round"


def test_a_slash_goes_to_the_filter(tab: Tab, ended: ShownRun) -> None:
    opened(tab, ended)
    tab.press("/")
    assert tab.js("document.activeElement.id") == "filter"
    assert tab.js("document.querySelector('#filter').value") == ""


def test_the_first_tab_leads_past_the_curves(tab: Tab, ended: ShownRun) -> None:
    opened(tab, ended)
    tab.press("Tab")
    assert tab.js("document.activeElement.textContent") == "Skip to the devices"
    tab.press("Enter")
    tab.wait("document.activeElement.id === 'devices'")


def test_arrows_read_single_rounds_of_a_curve(tab: Tab, ended: ShownRun) -> None:
    opened(tab, ended)
    tab.js("document.querySelector('#payload svg').focus()")
    tab.press("ArrowLeft")
    assert tab.texts("#payload .legend span")[0].strip() == "to the devices 5 kB round 5"
    tab.press("Home")
    assert tab.texts("#payload .legend span")[1].strip() == "from the devices 1 kB round 1"
    tab.press("End")
    assert tab.texts("#payload .legend span")[0].strip() == "to the devices 6 kB round 6"


def test_the_mouse_reads_single_rounds_of_a_curve(tab: Tab, ended: ShownRun) -> None:
    opened(tab, ended)
    tab.js("document.querySelector('#accuracy').scrollIntoView({block: 'center'})")
    box = tab.js("document.querySelector('#accuracy svg').getBoundingClientRect().toJSON()")
    tab.move(box["x"] + 60, box["y"] + 100)  # above round 1, though the first evaluation is round 2's
    assert tab.texts("#accuracy .legend span")[0].strip() == "own models 52 % round 2"


# Screen readers.


def test_curves_say_their_last_values(tab: Tab, ended: ShownRun) -> None:
    opened(tab, ended)
    words = tab.js("document.querySelector('#accuracy svg').getAttribute('aria-label')")
    assert words.startswith("own models 56 % after round 6; global model 25 % after round 6.")


def test_whatever_can_be_used_has_a_name_and_the_table_has_headings(tab: Tab, shown: ShownRun) -> None:
    running(tab, shown)
    tree = tab.call("Accessibility.getFullAXTree")["nodes"]
    kinds = ("button", "searchbox", "combobox", "image", "link", "progressbar", "region", "table", "graphics-document")
    found = [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in tree if not n["ignored"]]
    used = [(role, name) for role, name in found if role in kinds]
    assert {"button", "searchbox", "combobox", "link", "table"} <= {role for role, _ in used}
    assert [each for each in used if not each[1].strip()] == []
    assert sum(role == "columnheader" for role, _ in found) >= 12


# News.


def test_a_round_appears_when_it_is_closed(tab: Tab, shown: ShownRun) -> None:
    running(tab, shown)
    made_run.close_round(shown.path, 3, range(3), False, 4)
    tab.wait("document.querySelector('#rounds').textContent === '3 of 2'")
    made_run.close_round(shown.path, 4, range(4), False, 4)
    tab.wait("document.querySelector('#accuracy svg').getAttribute('aria-label').includes('after round 4')")
    assert tab.js("performance.getEntriesByName(location.href + 'state.json').length") == 1


def test_what_a_device_does_changes_as_it_happens(tab: Tab, shown: ShownRun) -> None:
    running(tab, shown)
    made_run.alive(shown.path, 3, {0: "replied", 1: "replied", 2: "training", 3: "away"})
    tab.wait("document.querySelector('[data-client=\"1\"] .does').textContent === 'replied'")
    assert column(tab, "Does") == ["replied", "replied", "training", "away"]
    tab.wait("document.querySelector('#waiting').textContent === 'client 2'")


def test_a_page_that_is_gone_is_said_and_found_again(tab: Tab, shown: ShownRun) -> None:
    running(tab, shown)
    shown.close()
    tab.wait("document.querySelector('#state').textContent.includes('out of reach')")
    shown.show()
    tab.wait("document.querySelector('#state').textContent === 'round 3 is open'")
    made_run.alive(shown.path, 3, {0: "idle", 1: "idle", 2: "idle", 3: "idle"})
    tab.wait("document.querySelector('[data-client=\"1\"] .does').textContent === 'idle'")
    tab.problems.clear()  # the browser says that it could not connect


# Sizes and themes.


@pytest.mark.parametrize("width", [390, 768, 1440])
def test_nothing_is_wider_than_the_window(browser: Chromium, ended: ShownRun, width: int) -> None:
    with browser.tab(width, 900) as tab:
        opened(tab, ended)
        assert tab.js("document.documentElement.scrollWidth") == width
        boxes = "[...document.querySelectorAll('.tile, figure, .tools, .scroll')]"
        assert max(tab.js(f"{boxes}.map((each) => each.getBoundingClientRect().right)")) <= width


def test_a_small_window_has_cards_and_sorts_by_a_list(browser: Chromium, ended: ShownRun) -> None:
    with browser.tab(390, 844) as tab:
        opened(tab, ended)
        assert tab.texts("#head th") == []
        pick = "const s = document.querySelector('#sort'); s.value = 'absent'; s.dispatchEvent(new Event('change'))"
        tab.js(f"(() => {{ {pick} }})()")
        shown_names = tab.js(f"[...document.querySelectorAll('{ROWS}')].map((row) => row.children[0].textContent)")
        assert shown_names == [f"client {client}" for client in (1, 2, 0, 3, 4, 5)]


TEXT = "h1, h2, p, td, th button, label, figcaption, .legend, a, #waiting button"
CONTRAST = """(() => {
  const part = (v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map((v) => part(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const back = (e) => {
    for (; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (!colour.startsWith('rgba(0, 0, 0, 0')) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const ratio = (e) => {
    const [a, b] = [light(getComputedStyle(e).color), light(back(e))].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  };
  const found = [...document.querySelectorAll('%s')];
  const shown = found.filter((e) => e.getClientRects().length && e.textContent.trim() && !e.closest('.skip'));
  return Math.min(...shown.map(ratio));
})()"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out_in_both_themes(browser: Chromium, shown: ShownRun, theme: str) -> None:
    with browser.tab(theme=theme) as tab:
        running(tab, shown)
        back = tab.js("getComputedStyle(document.body).backgroundColor")
        assert (back == "rgb(20, 23, 27)") == (theme == "dark")
        assert tab.js(CONTRAST % TEXT) >= 4.5  # WCAG 2.1, AA


# Tokens.


def test_a_token_opens_the_page_once_and_a_cookie_afterwards(tab: Tab, shown: ShownRun) -> None:
    made_run.made_run(shown.path)
    url = shown.show(TOKEN)
    tab.open(f"{url}?token={TOKEN}")
    tab.wait("document.querySelectorAll('#body tr').length === 4")
    assert tab.js("location.href") == url
    assert tab.js("document.cookie") == ""  # HttpOnly
    (cookie,) = tab.call("Network.getCookies")["cookies"]
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert TOKEN not in cookie["value"]
    tab.open(url)
    tab.wait("document.querySelectorAll('#body tr').length === 4")


def test_without_the_token_there_is_nothing_to_see(tab: Tab, shown: ShownRun) -> None:
    made_run.made_run(shown.path)
    url = shown.show(TOKEN)
    tab.open(f"{url}?token=another-token-of-32-characters-or-more")
    tab.wait("document.body.textContent.includes('a token is missing or wrong')")
    assert status_of(f"{url}state.json") == 401
    assert status_of(f"{url}state.json", Authorization=f"Bearer {TOKEN}") == 200
    tab.problems.clear()  # the browser says 401


# Many devices.


def test_1000_devices_and_500_rounds_load_whole(tab: Tab, shown: ShownRun) -> None:
    made_run.made_run(shown.path, clients=1000, rounds=500, per_round=10)
    shown.show()
    tab.open(shown.url)
    tab.wait("document.querySelectorAll('#body tr').length === 1000 && document.querySelector('#payload .curve')")
    with urlopen(f"{shown.url}") as answer:
        assert len(answer.read()) < 100_000
    tab.click("#filter")
    tab.type("777")
    tab.wait("document.querySelector('#shown').textContent === '1 of 1000 devices'")
