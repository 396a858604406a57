"""Kafka keeps the log contract: the same suite that the embedded log runs."""

from typing import ClassVar

from contract_suite import LogContract


class TestKafka(LogContract):
    """The suite on a real broker."""

    KEEPS_GIVEN_TIME: ClassVar[bool] = False
