"""The page in a browser: its figures, its live list, its own verification; pictures of it.

Debian's Chromium, headless, driven by Selenium; `chromium` and `chromium-driver` must be installed.
The pictures go to `artefacts/` (or `POOL_ARTEFACTS`), which is not committed.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

ROOT = Path(__file__).parents[2]
ARTEFACTS = Path(os.environ.get("POOL_ARTEFACTS", ROOT / "artefacts"))
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--force-color-profile=srgb", "--hide-scrollbars",
)  # fmt: skip
SECONDS_MAX = 60
COUNTS = ("live", "waiting")
WIDE, PHONE = (1280, 900), (390, 844)
TAMPER = """
const real = window.fetch;
window.fetch = async (path, ...rest) => {
  const answer = await real(path, ...rest);
  if (!String(path).includes(arguments[0])) return answer;
  const bytes = new Uint8Array(await answer.arrayBuffer());
  bytes[Math.floor(bytes.length * arguments[1])] ^= 1;
  return new Response(bytes, { status: answer.status });
};
window.untamper = () => { window.fetch = real; };
""".replace("arguments[", "window.tampering[")


def _pool(*arguments: str) -> str:
    command = [sys.executable, "-m", "streams.cli.main", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's directory: a decided day, a witness, a trust file."""
    directory = tmp_path_factory.mktemp("page") / "demo"
    _pool("demo", "--data", str(directory), "--json")
    return directory


def _usage(data: Path) -> list[dict[str, Any]]:
    """What `pool usage --json` says, beside the server that holds the directory."""
    lines = _pool("usage", "--data", str(data), "--json").splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def url(data: Path) -> Iterator[str]:
    """`pool serve` on the demo's directory, on any free port."""
    with _serving(data) as address:
        yield address


@contextlib.contextmanager
def _serving(data: Path, *options: str) -> Iterator[str]:
    command = [sys.executable, "-m", "streams.cli.main", "serve", "--data", str(data), *options]
    process = subprocess.Popen(
        [*command, "--port", "0", "--json"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield str(json.loads(process.stdout.readline())["url"])
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS_MAX) == 0


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """A headless Chromium with an empty profile and no way to any other host."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    assert chromium and driver, "install chromium and chromium-driver (Debian)"
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in FLAGS:
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.add_argument("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=Service(driver))
    yield chrome
    chrome.quit()


def _until(what: Callable[[], Any]) -> Any:
    """The first true answer."""
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        with contextlib.suppress(Exception):
            answer = what()
            if answer:
                return answer
        time.sleep(0.1)
    return what()


def _find(browser: webdriver.Chrome, css: str) -> Any:
    return browser.find_element(By.CSS_SELECTOR, css)


def _open(browser: webdriver.Chrome, url: str, size: tuple[int, int], scheme: str) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False},
    )
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    # What the page before this one logged is not this one's.
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get(url)
    _until(lambda: _find(browser, "#status").text == "Live")
    _until(lambda: _find(browser, "#tree tbody tr"))
    _until(lambda: _find(browser, "#power svg"))


def test_the_figures_are_those_of_pool_usage(
    browser: webdriver.Chrome, url: str, data: Path
) -> None:
    """Devices and energy of every node, as the page shows them and as the command says."""
    _open(browser, url, WIDE, "light")
    # The demo's day is long over: what was due since is settled when the server starts.
    nodes = [line for line in _usage(data) if line["node"] is not None]
    _until(lambda: _shown(browser, nodes) == _said(nodes))
    assert _shown(browser, nodes) == _said(nodes)
    assert _find(browser, "#grade").text == "witnessed"
    waiting = browser.find_elements(By.CSS_SELECTOR, "#waiting li[data-claim]")
    assert len(waiting) == nodes[0]["waiting"]
    assert all(len(item.text) > 40 for item in waiting)


def _said(nodes: list[dict[str, Any]]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Figures by node and resource, and counts, as the command has them."""
    said = {}
    for node in nodes:
        for resource in ("mdev", "uj"):
            figures = node["resources"][resource]
            said[node["node"], resource] = (str(figures["used"]), str(figures["guarantee"]))
        said[node["node"], "claims"] = (str(node["live"]), str(node["waiting"]))
    return said


def _shown(
    browser: webdriver.Chrome, nodes: list[dict[str, Any]]
) -> dict[tuple[str, str], tuple[str, ...]]:
    """The same from the page's table."""
    shown = {}
    assert len(browser.find_elements(By.CSS_SELECTOR, "#tree tbody tr")) == len(nodes)
    for node in nodes:
        row = f'#tree tr[data-node="{node["node"]}"]'
        for resource in ("mdev", "uj"):
            cell = _find(browser, f'{row} td[data-resource="{resource}"]')
            figures = (cell.get_attribute("data-used"), cell.get_attribute("data-guarantee"))
            shown[node["node"], resource] = figures
        counts = [_find(browser, f'{row} td[data-count="{one}"]').text for one in COUNTS]
        shown[node["node"], "claims"] = tuple(counts)
    return shown


def test_a_decision_arrives_without_a_reload(browser: webdriver.Chrome, url: str) -> None:
    """A claim asked for elsewhere appears in the list, and the waiting list follows."""
    _open(browser, url, WIDE, "light")
    ask = {"pool_id": "demo", "leaf": "cygnus", "claim": "from-outside", "grade": "ModelBased"}
    ask |= {"shape": {"mdev": 20_000, "uj": 10**9}}
    request = urllib.request.Request(
        f"{url}compute-leases", json.dumps(ask).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
        assert answer.status == 202
    item = _until(lambda: _find(browser, '#decisions li[data-claim="from-outside"]'))
    assert "waits" in item.text
    _until(lambda: _find(browser, '#waiting li[data-claim="from-outside"]'))


def test_a_receipt_is_verified_here_and_a_tampered_one_is_red(
    browser: webdriver.Chrome, url: str
) -> None:
    """The button fetches and verifies; one changed bit, anywhere, is found and said."""
    _open(browser, url, WIDE, "light")
    assert _verdict(browser, 188) == "verified"
    checks = [
        item.get_attribute("data-check")
        for item in browser.find_elements(By.CSS_SELECTOR, "#verdict li")
    ]
    assert checks == ["signature", "head", "inclusion", "witness"]
    for what in ("/receipts/", "/proofs/"):
        for place in (0.001, 0.2, 0.45, 0.6, 0.85, 0.999):
            browser.execute_script(f"window.tampering = ['{what}', {place}];{TAMPER}")
            assert _verdict(browser, 188) == "refused", (what, place)
            assert "bad" in _find(browser, "#verdict .outcome").get_attribute("class")
            colour = _find(browser, "#verdict .outcome").value_of_css_property("color")
            red, green, blue = map(int, re.findall(r"\d+", colour)[:3])
            assert red > 150 and green < 100 and blue < 100
            browser.execute_script("window.untamper()")
    assert _verdict(browser, 0) == "verified"
    _find(browser, "#trusted").send_keys("did:key:z6MkkiSVhwi1QWWaeydmy3GjX5oYbnEnSfRUdz9XASuQEsGx")
    assert _verdict(browser, 0) == "refused"
    check = _find(browser, "#verdict li.bad").get_attribute("data-check")
    assert check == "trust"


def _verdict(browser: webdriver.Chrome, seq: int) -> str:
    browser.execute_script("document.getElementById('verdict').replaceChildren()")
    field = _find(browser, "#seq")
    field.clear()
    field.send_keys(str(seq))
    _find(browser, "#verify").click()
    said = _until(lambda: f"receipt {seq} " in _find(browser, "#verdict .outcome").text)
    assert said
    outcome = str(_find(browser, "#verdict").get_attribute("class"))
    return outcome if outcome in ("verified", "refused") else _find(browser, "#verdict").text


def test_a_tenants_token_shows_its_subtree_only(
    browser: webdriver.Chrome, url: str, data: Path, tmp_path: Path
) -> None:
    """The page asks for a token; a tenant's shows its node, the whole and one sum of others."""
    made = ("token", "cygnus", "--role", "claims", "--subtree", "cygnus", "--json")
    token = json.loads(_pool(*made))
    (tmp_path / "tokens.toml").write_text("\n".join(token["lines"]))
    with _serving(data, "--read-only", "--tokens", str(tmp_path / "tokens.toml")) as address:
        browser.get(address)
        _until(lambda: "token" in _find(browser, "#trouble").text)
        _until(lambda: _find(browser, "#token").is_displayed())
        _find(browser, "#token").send_keys(token["token"], Keys.ENTER)
        _until(lambda: _find(browser, "#status").text == "Live")
        rows = _until(lambda: browser.find_elements(By.CSS_SELECTOR, "#tree tbody tr"))
        assert [row.get_attribute("data-node") for row in rows] == ["/", "cygnus"]
        assert "Everybody else together uses" in _find(browser, "#others").text
        text = _find(browser, "body").text
        assert "borealis" not in text and "atlas" not in text and "gpu-" not in text


def test_it_is_used_with_the_keyboard_and_read_aloud(browser: webdriver.Chrome, url: str) -> None:
    """Tab reaches every control in order; every control and picture has a name."""
    _open(browser, url, WIDE, "light")
    reached = []
    for _ in range(14):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        active = browser.switch_to.active_element
        reached.append(active.get_attribute("id") or active.tag_name)
    wanted = ["a", "pools", "summary", "series", "pause", "decisions", "seq", "trusted", "verify"]
    assert [one for one in reached if one in wanted][: len(wanted) + 1] != []
    assert set(wanted) <= set(reached), reached
    unnamed = browser.execute_script(
        "return [...document.querySelectorAll('svg')].filter(e => !e.getAttribute('aria-label'))"
        ".length + [...document.querySelectorAll('input,select')]"
        ".filter(e => !e.labels.length).length"
    )
    assert unnamed == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_pictures_and_no_sideways_scrolling(
    browser: webdriver.Chrome, url: str, size: tuple[int, int], scheme: str
) -> None:
    """Two widths, both themes: nothing is wider than the window, nothing is logged as an error."""
    _open(browser, url, size, scheme)
    field = _find(browser, "#seq")
    field.clear()
    field.send_keys("188")
    browser.execute_script("document.getElementById('verify').click()")
    _until(lambda: "188" in _find(browser, "#verdict .outcome").text)
    browser.execute_script("window.scrollTo(0, 0)")
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    assert wide <= size[0]
    picture = browser.execute_cdp_cmd(
        "Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True}
    )
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    name = f"page-{'wide' if size == WIDE else 'phone'}-{scheme}.png"
    (ARTEFACTS / name).write_bytes(base64.b64decode(picture["data"]))
    errors = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert [entry for entry in errors if "favicon" not in entry["message"]] == []
