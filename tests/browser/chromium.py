"""A Chromium without a window, and its tabs: real clicks, real keys, screenshots, over the DevTools protocol.

`find_chromium()` returns the program, or None, and then tests are skipped. Waiting is done in the browser, by a promise
that looks at every frame, so that no test sleeps.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from websockets.sync.client import connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE_S = 20.0
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
    "--force-color-profile=srgb", "--font-render-hinting=none", "--remote-debugging-port=0",
)  # fmt: skip
KEYS = {  # name -> (code, key code, text)
    "Tab": ("Tab", 9, ""), "Enter": ("Enter", 13, "\r"), "Escape": ("Escape", 27, ""), " ": ("Space", 32, " "),
    "ArrowLeft": ("ArrowLeft", 37, ""), "ArrowRight": ("ArrowRight", 39, ""), "Home": ("Home", 36, ""),
    "End": ("End", 35, ""), "ArrowDown": ("ArrowDown", 40, ""), "ArrowUp": ("ArrowUp", 38, ""),
    "/": ("Slash", 191, "/"),
}  # fmt: skip
WAIT = """new Promise((done, fail) => {
  const end = performance.now() + %d;
  const look = () => {
    let found = null;
    try { found = (%s); } catch (error) { found = null; }
    if (found) done(found);
    else if (performance.now() > end) fail(new Error("waited in vain"));
    else setTimeout(look, 16);
  };
  look();
})"""


def find_chromium() -> str | None:
    """Return the program's path, or None where no Chromium is installed."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@contextmanager
def chromium(folder: Path) -> Iterator[Chromium]:
    """A browser with a profile in this folder, for the length of the with block."""
    program = find_chromium()
    assert program is not None
    log = folder / "chromium.log"
    with open(log, "wb") as errors:
        process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stderr is not None
            for line in process.stderr:
                errors.write(line.encode())
                if "DevTools listening on ws://" in line:
                    address = line.split("ws://")[1].split("/")[0]
                    break
            else:
                raise AssertionError(f"{program} ended before it listened; see {log}")
            yield Chromium(address)
        finally:
            process.kill()
            process.wait()


class Chromium:
    """A running browser that listens at this address."""

    def __init__(self, address: str) -> None:
        self._address = address

    @contextmanager
    def tab(self, width: int = 1280, height: int = 900, theme: str = "light") -> Iterator[Tab]:
        """A new tab with cookies of its own, of this size in CSS pixels, in the light or the dark theme."""
        with urlopen(f"http://{self._address}/json/version") as answer:
            browser = json.load(answer)["webSocketDebuggerUrl"]
        with connect(browser, max_size=None) as link:
            root = Tab(link)
            context = root.call("Target.createBrowserContext")["browserContextId"]
            target = root.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
            root.session = root.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Network", "Log"):
                root.call(f"{domain}.enable")
            root.size(width, height)
            root.theme(theme)
            yield root
            root.session = None
            root.call("Target.disposeBrowserContext", browserContextId=context)


class Tab:
    """One tab.

    requests  the addresses of everything that it has asked for
    problems  errors and warnings of the console, and exceptions
    """

    def __init__(self, link: Any) -> None:
        self._link, self._number, self.session = link, 0, None
        self.requests: list[str] = []
        self.problems: list[str] = []

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Carry out one command of the protocol, and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        self._link.send(json.dumps(message))
        while True:
            found = json.loads(self._link.recv(timeout=60))
            if found.get("id") == self._number:
                if "error" in found:
                    raise AssertionError(f"{method}: {found['error']}")
                return dict(found["result"])
            self._note(found)

    def _note(self, event: dict[str, Any]) -> None:
        kind, about = event.get("method"), event.get("params", {})
        if kind == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif kind == "Runtime.exceptionThrown":
            self.problems.append(str(about["exceptionDetails"].get("exception", about)))
        elif kind == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.problems.append(about["entry"]["text"])
        elif kind == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning"):
            self.problems.append(str(about["args"]))

    def open(self, url: str) -> None:
        """Goes there."""
        found = self.call("Page.navigate", url=url)
        assert "errorText" not in found, found

    def js(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, or what a promise resolves to."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            details = found["exceptionDetails"]
            raise AssertionError(f"{expression[:200]}: {details.get('exception', {}).get('description', details)}")
        return found["result"].get("value")

    def wait(self, condition: str, patience_s: float = PATIENCE_S) -> Any:
        """Wait in the tab until the expression is true, and return its value."""
        try:
            return self.js(WAIT % (1000 * patience_s, condition))
        except AssertionError as error:
            shown = self.js("document.body ? document.body.innerText.slice(0, 600) : ''")
            raise AssertionError(f"{condition}: {error}\n{shown}\n{self.problems}") from None

    def text(self, selector: str) -> str:
        """Return the text of an element."""
        return str(self.js(f"document.querySelector({json.dumps(selector)}).textContent"))

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all matching elements that are shown."""
        query = f"[...document.querySelectorAll({json.dumps(selector)})]"
        return list(self.js(f"{query}.filter((each) => each.getClientRects().length).map((each) => each.textContent)"))

    def click(self, selector: str) -> None:
        """Presses and releases the mouse in the middle of the element."""
        query = f"document.querySelector({json.dumps(selector)})"
        self.js(f"{query}.scrollIntoView({{block: 'center'}})")
        where = self.js(
            f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])({query}.getBoundingClientRect())"
        )
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent", type=kind, x=where[0], y=where[1], button="left", buttons=1, clickCount=1
            )

    def move(self, x: float, y: float) -> None:
        """Moves the mouse there."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key: str, shift: bool = False) -> None:
        """Presses and releases a key."""
        code, number, text = KEYS.get(key, (f"Key{key.upper()}", ord(key.upper()[0]), key))
        about = {"key": key, "code": code, "windowsVirtualKeyCode": number, "modifiers": 8 * shift}
        self.call("Input.dispatchKeyEvent", type="keyDown", **about, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def type(self, text: str) -> None:
        """Types into what has the focus."""
        for each in text:
            self.call("Input.dispatchKeyEvent", type="char", text=each)

    def size(self, width: int, height: int) -> None:
        """The size of the view in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def theme(self, name: str) -> None:
        """The light or the dark theme."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def screenshot(self, file: Path, whole: bool = True) -> None:
        """A PNG of the view, or of the whole page."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(found["data"]))


def status_of(url: str, **headers: str) -> int:
    """The HTTP status of GET without a browser."""
    from urllib.error import HTTPError

    try:
        with urlopen(
            Request(url, headers={name.replace("_", "-"): value for name, value in headers.items()})
        ) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code
