"""Getting in: TLS and SASL options reach the broker, and a closed door is told in words."""

import datetime
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest
from brokers import NoBroker, local_cluster
from contract_suite import event, receipt, values
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from support import QUICK

from streams import topics
from streams.logs.kafka import KafkaLog
from streams.logs.kafka_admin import create_topics
from streams.logs.kafka_errors import Forbidden
from streams.logs.kafka_options import Connection

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def certificate(directory: Path) -> tuple[Path, Path]:
    """A self-signed certificate for loopback: the broker's key store, and what clients trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "loopback")])
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = built.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    store, trusted = directory / "broker.pem", directory / "trusted.pem"
    store.write_bytes(private + pem)
    trusted.write_bytes(pem)
    return store, trusted


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A broker with a SASL_SSL door: `alice` may do all, `bob` nothing. Its address, its CA."""
    directory = tmp_path_factory.mktemp("secured")
    store, trusted = certificate(directory)
    settings = (
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={store}",
        "sasl.enabled.mechanisms=PLAIN",
        f"listener.name.sasl_ssl.plain.sasl.jaas.config={LOGIN} required "
        'user_alice="open sesame" user_bob="let me in";',
        f"authorizer.class.name={AUTHORIZER}",
        "super.users=User:ANONYMOUS;User:alice",
    )
    try:
        with local_cluster(directory / "kafka", settings=settings, listener="SASL_SSL") as cluster:
            host, port = cluster.address.split(":")
            yield f"{host}:{int(port) + 2}", trusted
    except NoBroker as nothing:
        pytest.fail(str(nothing), pytrace=False)


def connection(secured: tuple[str, Path], user: str, password: str) -> Connection:
    """A connection through the door."""
    address, trusted = secured
    options = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
        "ssl.ca.location": str(trusted),
    }
    return Connection(bootstrap=address, tuning=QUICK, options=options)


async def test_who_may_enter_reads_and_writes(secured: tuple[str, Path]) -> None:
    """Over TLS and SASL everything works as without."""
    alice = connection(secured, "alice", "open sesame")
    await create_topics(alice, partitions=1, replicas=1)
    log = KafkaLog(alice)
    await log.publish([event(0)])
    writer = await log.open_writer(0)
    await writer.append([receipt(0)])
    assert await values(log, topics.CLAIMS, 0) == [b"event 0"]
    assert await values(log, topics.LEDGER, 0) == [b"receipt 0"]
    await writer.close()
    await log.close()


async def test_a_wrong_password_is_forbidden(secured: tuple[str, Path]) -> None:
    """It says that entry was refused, and not the password."""
    log = KafkaLog(connection(secured, "alice", "guess"))
    with pytest.raises(Forbidden) as refused:
        await log.partitions()
    assert "guess" not in str(refused.value)
    await log.close()


async def test_who_may_see_nothing_is_told_so(secured: tuple[str, Path]) -> None:
    """A user without rights gets one line, not a missing topic."""
    log = KafkaLog(connection(secured, "bob", "let me in"))
    with pytest.raises(Forbidden, match="check the user's rights"):
        await log.partitions()
    await log.close()
