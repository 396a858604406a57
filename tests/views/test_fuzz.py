"""Requests made up from the OpenAPI document find no 5xx and no answer that it does not describe.

Made by schemathesis. Streams without an end are left out; `test_http` has them.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from views_support import copy_of

ROOT = Path(__file__).parents[2]
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_headers_conformance,response_schema_conformance,unsupported_method"
)
SECONDS_MAX = 240
EXAMPLES = 8


def test_no_fault_and_nothing_undocumented(day_directory: Path, tmp_path: Path) -> None:
    """Every operation, with examples, edge values and made-up ones, right and wrong."""
    data = copy_of(day_directory, tmp_path / "data")
    (data / "steward.pem").write_bytes(_pem())
    (data / "steward.pem").chmod(0o600)
    serving = subprocess.Popen(
        [
            *(sys.executable, "-m", "streams.cli.main", "serve", "--data", str(data)),
            *("--port", "0", "--rate", "100000", "--json"),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert serving.stdout is not None
    try:
        url = json.loads(serving.stdout.readline())["url"]
        found = subprocess.run(
            [
                *(str(Path(sys.executable).with_name("schemathesis")), "run"),
                *(str(ROOT / "streams" / "views" / "openapi.json"), "--url", url.rstrip("/")),
                *("--checks", CHECKS, "--max-examples", str(EXAMPLES), "--mode", "all"),
                *("--phases", "examples,coverage,fuzzing", "--seed", "6", "--workers", "1"),
                *("--exclude-path", "/compute-pools/{pool_id}/decisions"),
                *("--header", "Prefer: wait=2", "--generation-database", "none", "--no-color"),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
        )
    finally:
        serving.send_signal(signal.SIGTERM)
        assert serving.wait(30) == 0
    assert found.returncode == 0, found.stdout[-6000:] + found.stderr[-1000:]


def _pem() -> bytes:
    """The key that decided the day."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
