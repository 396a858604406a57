"""The read side's README: its commands work when they are pasted after the demo."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "streams" / "views" / "README.md"
BIN = Path(sys.executable).parent
SECONDS_MAX = 120
# What answers badly would go unseen: curl is content with any status.
STRICT = 'set -e\ncurl() { command curl --fail-with-body "$@"; }\n'


def blocks(text: str) -> list[str]:
    """The shell blocks of a document, in order."""
    return re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What each block printed, pasted into one shell beside a demo's directory."""
    if shutil.which("curl") is None:
        pytest.fail("the commands are curl's: apt-get install curl", pytrace=False)
    here = tmp_path_factory.mktemp("pasted")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    subprocess.run(
        [BIN / "pool", "demo"], cwd=here, env=environment, capture_output=True, check=True
    )
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    given = STRICT
    for block in blocks(README.read_text()):
        block = block.replace("pool serve", f"pool serve --port {port}").replace("8321", str(port))
        given += (
            block.replace(".venv/bin/pool", shlex.quote(str(BIN / "pool"))) + "echo; echo ~~~\n"
        )
    with (here / "out").open("wb") as out, (here / "err").open("wb") as err:
        shell = subprocess.Popen(
            ["sh", "-c", given], cwd=here, env=environment, stdout=out, stderr=err,
            start_new_session=True,
        )  # fmt: skip
        try:
            status = shell.wait(SECONDS_MAX)
        finally:
            # A command that failed has left a server behind; its session is our own.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
    answered = (here / "out").read_text()
    assert status == 0, answered[-2000:] + (here / "err").read_text()[-2000:]
    return answered.split("~~~\n")[:-1]


def test_each_block_is_answered_as_its_text_says(said: list[str]) -> None:
    """Pools, a reason, a lease from first to last, events, a proof, a token's own claims."""
    started, asked, leased, ended, events, proved, own = said
    assert '"caught_up":true' in started
    assert '"pool_id":"demo"' in asked and '"reason":"awaiting-reclaim"' in asked
    assert '"starts":true' in asked
    assert leased.count('"state":"held"') == 2 and '"kind":"duplicate"' in leased
    assert '"state":"running"' in ended and '"basis":"reported"' in ended
    assert "id: 2330\nevent: decision" in events and "id: 2333\n" in events
    assert "proved" in proved and "ok  pool demo" in proved
    assert '"claim":"mine"' in own and '"state":"ended"' in own
