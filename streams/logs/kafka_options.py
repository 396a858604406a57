"""Which Kafka cluster, which deployment in it, how to get in, and how long to wait for it.

Not here: connecting (`kafka_client`).

1. Options carry librdkafka's names, which operators know: `security.protocol`, `sasl.mechanism`,
   `sasl.username`, `sasl.password`, `ssl.ca.location`, ...; an unknown one is refused.
2. A secret never appears in a `repr` or a message.

Invariant: a `Connection` that was made has options that make sense together.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streams.logs.errors import LogTrouble, Remedy

GROUP_DEFAULT = "pool-steward"

OPTIONS = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.username",
        "sasl.password",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
    }
)
PROTOCOLS = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
MECHANISMS = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})


class BadConnection(LogTrouble):
    """The options given for a connection make no sense; nothing was connected."""

    remedy = Remedy.STOP


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Time limits, in ms. The defaults are for production; tests shorten them.

    A transaction must outlast a batch and a broker's restart, and readers stall as long as a killed
    steward's one stands: hence between 10 and 40 s.
    """

    request_ms: int = 10_000
    transaction_ms: int = 15_000
    append_ms: int = 20_000
    open_ms: int = 30_000
    stop_ms: int = 3_000
    session_ms: int = 12_000
    heartbeat_ms: int = 2_000
    rebalance_ms: int = 60_000
    poll_interval_ms: int = 120_000
    fetch_wait_ms: int = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Which cluster, which deployment in it, and how to get in.

    `prefix` stands before every topic's name and every group's and transactional id: deployments
    (and tests) that share a cluster do not meet. Receipts always name topics without it.
    """

    bootstrap: str
    prefix: str = ""
    group: str = GROUP_DEFAULT
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    tuning: Tuning = field(default_factory=Tuning)

    def __post_init__(self) -> None:
        check_options(self.options)

    @property
    def where(self) -> str:
        """What to call this log in a message."""
        return f"kafka {self.bootstrap}"

    def topic(self, name: str) -> str:
        """A topic's name in the cluster."""
        return self.prefix + name

    def transactional_id(self, partition: int) -> str:
        """The id by which the broker fences: one for each partition, whoever the steward is."""
        return f"{self.prefix}{self.group}.{partition}"

    def client_arguments(self) -> dict[str, Any]:
        """What every client of the library takes. Raises BadConnection: a file cannot be used."""
        arguments: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap,
            "client_id": f"pool-{self.group}",
            "request_timeout_ms": self.tuning.request_ms,
            "security_protocol": self.options.get("security.protocol", "PLAINTEXT"),
        }
        if arguments["security_protocol"].endswith("SSL"):
            arguments["ssl_context"] = _ssl_context(self.options)
        if arguments["security_protocol"].startswith("SASL"):
            arguments["sasl_mechanism"] = self.options.get("sasl.mechanism", "PLAIN")
            arguments["sasl_plain_username"] = self.options.get("sasl.username", "")
            arguments["sasl_plain_password"] = self.options.get("sasl.password", "")
        return arguments


def parse_options(text: str) -> dict[str, str]:
    """Options from a file's text: `name = value` lines, `#` comments.

    Raises:
        BadConnection: a line without `=`, an unknown option, or a value outside its list.
    """
    options: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        name, separator, value = stripped.partition("=")
        if not separator:
            raise _bad(f"line {number} has no '='", "write one `name = value` a line")
        options[name.strip()] = value.strip()
    check_options(options)
    return options


def check_options(options: Mapping[str, str]) -> None:
    """Raises BadConnection where an option is unknown or its value is none of those it may have."""
    for name in options:
        if name not in OPTIONS:
            raise _bad(f"unknown option {name!r}", f"known are {', '.join(sorted(OPTIONS))}")
    protocol = options.get("security.protocol", "PLAINTEXT")
    if protocol not in PROTOCOLS:
        raise _bad(
            f"unknown security.protocol {protocol!r}", f"one of {', '.join(sorted(PROTOCOLS))}"
        )
    mechanism = options.get("sasl.mechanism", "PLAIN")
    if mechanism not in MECHANISMS:
        raise _bad(
            f"unknown sasl.mechanism {mechanism!r}", f"one of {', '.join(sorted(MECHANISMS))}"
        )


def _bad(what: str, todo: str) -> BadConnection:
    return BadConnection(what, where="connection options", todo=todo)


def _ssl_context(options: Mapping[str, str]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=options.get("ssl.ca.location"))
        certificate = options.get("ssl.certificate.location")
        if certificate is not None:
            context.load_cert_chain(
                certificate, options.get("ssl.key.location"), options.get("ssl.key.password")
            )
    except (OSError, ssl.SSLError) as error:
        raise _bad(f"TLS files cannot be used: {error}", "check the ssl.* options") from error
    if options.get("ssl.endpoint.identification.algorithm", "https") == "none":
        context.check_hostname = False
    return context
