"""What the Kafka client's errors mean here, as the contract's troubles.

Not here: catching them (every caller does, around its own step, because the same error means
different things before and after a record may have left).

1. A broker that does not answer, moves a leader or times out is `Unavailable`: nothing is wrong.
2. A missing topic and a missing right are for a person, and say which.
3. What is not known here is `Unavailable` with the client's own words: retried, and seen.

Invariant: `translate` returns for any exception; a message holds no option's value.
"""

# aiokafka has no annotations and no marker file.
from aiokafka import errors  # type: ignore[import-untyped]

from streams.logs.errors import Damaged, DiskFull, Fenced, LogTrouble, Missing, Remedy, Unavailable


class Forbidden(LogTrouble):
    """The cluster does not let this user in, or not do this; nothing was changed."""

    remedy = Remedy.STOP


FENCED = (errors.ProducerFenced, errors.InvalidProducerEpoch)
TOO_LARGE = (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError)
OUT_OF_RANGE = (errors.OffsetOutOfRangeError,)
CLIENT_ERRORS = (
    errors.KafkaError,
    errors.ConsumerStoppedError,
    errors.IllegalOperation,
    # The library's state machine asserts: a dead producer answers with one.
    AssertionError,
    # Its tasks have died of one while a coordinator was down, and hand it out at the next call.
    KeyError,
    OSError,
    TimeoutError,
)
"""Everything the client library raises on trouble with brokers."""

_FORBIDDEN = (
    errors.TopicAuthorizationFailedError,
    errors.GroupAuthorizationFailedError,
    errors.ClusterAuthorizationFailedError,
    errors.TransactionalIdAuthorizationFailed,
    errors.AuthenticationFailedError,
    errors.AuthenticationMethodNotSupported,
    errors.SaslAuthenticationFailed,
    errors.UnsupportedSaslMechanismError,
)


def translate(error: BaseException, *, doing: str, where: str) -> LogTrouble:
    """The trouble that an error of the client is for somebody who was only reading or asking."""
    if isinstance(error, LogTrouble):
        return error
    if isinstance(error, FENCED):
        return Fenced(
            f"another steward took over while {doing}", where=where, todo="open a new writer"
        )
    if isinstance(error, errors.UnknownTopicOrPartitionError):
        return missing(doing, where)
    if isinstance(error, _FORBIDDEN):
        return Forbidden(
            f"not allowed: {doing}: {words(error)}",
            where=where,
            todo="check the user's rights and the sasl.* and ssl.* options",
        )
    if isinstance(error, errors.CorruptRecordException | errors.RecordTooLargeError):
        return Damaged(
            f"a record cannot be read while {doing}: {words(error)}",
            where=where,
            todo="check the broker's disk; nothing is written past it",
        )
    if isinstance(error, errors.LogDirNotFound):
        return DiskFull(
            f"the broker has no usable log directory while {doing}",
            where=where,
            todo="check the broker's disk",
        )
    return Unavailable(
        f"no answer while {doing}: {words(error)}",
        where=where,
        todo="check that the broker runs and can be reached; trying again is safe",
    )


def missing(doing: str, where: str) -> Missing:
    """A topic that is needed and not there."""
    return Missing(
        f"no such topic while {doing}", where=where, todo="run `pool topics create` first"
    )


def words(error: BaseException) -> str:
    """An error in one line: its name, and what it says if that is more."""
    name = type(error).__name__
    text = " ".join(str(error).split())
    if isinstance(error, TimeoutError):
        return "timed out"
    return text if text.startswith(name) else f"{name}: {text}" if text else name
