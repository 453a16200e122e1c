"""Tokens for kafka-python. Only the driver imports this module: stream threads save 0.15 s of CPU without kafka-python."""

from __future__ import annotations

from kafka.errors import KafkaConnectionError, SaslAuthenticationFailedError
from kafka.net.sasl.oauth import AbstractTokenProvider

from penstock.errors import BrokerAccessError, BrokerError
from penstock.kafka.tokens import TokenSource


class MemberTokens(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """Adapts a `TokenSource` to kafka-python's errors: a refusal ends the membership, other errors are retried."""

    def __init__(self, source: TokenSource) -> None:
        super().__init__()
        self._source = source
        self._extensions: dict[str, str] = {}

    def token(self) -> str:
        """Return a valid token."""
        try:
            token = self._source.at_once()
        except BrokerAccessError as exc:
            raise SaslAuthenticationFailedError(str(exc)) from exc
        except BrokerError as exc:
            raise KafkaConnectionError(str(exc)) from exc
        self._extensions = dict(token.extensions)
        return token.value

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions of the last token."""
        return self._extensions
