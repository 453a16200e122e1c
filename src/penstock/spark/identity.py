"""The TLS certificate that the processes of one run of an application share.

It is made when the application starts, is sent to the threads with the application, and is discarded with it. Both sides of a
connection show it and accept no other, so no authority and no name is checked.

The driver's JVM makes the key pair and the signature through Java's public API. The certificate's other fields are encoded
here: Java has no public API for that, and `keytool` takes a second and a file.
"""

from __future__ import annotations

import base64
import os
import secrets
import socket
import ssl
import tempfile
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any

from pyspark import SparkContext

from penstock.spark.hosts import is_local
from penstock.spark.internals import jvm_of

_ECDSA_WITH_SHA256 = bytes.fromhex("06082a8648ce3d040302")
_COMMON_NAME = bytes.fromhex("0603550403")
_NEVER = b"99991231235959Z"  # RFC 5280: no end


@dataclass(frozen=True)
class Identity:
    """A self-signed certificate and its key, in DER."""

    certificate: bytes
    key: bytes = field(repr=False)

    def server_side(self, accepted: socket.socket) -> ssl.SSLSocket:
        """Wrap an accepted connection in TLS. `greet` performs the handshake."""
        return _context(self, ssl.PROTOCOL_TLS_SERVER).wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)

    def client_side(self, connected: socket.socket) -> ssl.SSLSocket:
        """Wrap an outgoing connection in TLS. `greet` performs the handshake."""
        return _context(self, ssl.PROTOCOL_TLS_CLIENT).wrap_socket(connected, do_handshake_on_connect=False)

    def greet(self, connected: ssl.SSLSocket, seconds: float) -> None:
        """Perform the handshake. Raises an error if the peer shows another certificate."""
        connected.settimeout(seconds)  # a limit for the whole handshake
        connected.do_handshake()
        if connected.getpeercert(binary_form=True) != self.certificate:
            raise ssl.SSLError("the peer's certificate is not this application's")


def identity_for(spark: SparkContext) -> Identity | None:
    """Make a certificate for network connections. Returns None on one machine, where private socket files are used."""
    return None if is_local(spark) else make_identity(spark)


def make_identity(spark: SparkContext) -> Identity:
    """Make an EC key (P-256) with a self-signed certificate."""
    jvm = jvm_of(spark)
    generator = jvm.java.security.KeyPairGenerator.getInstance("EC")
    generator.initialize(256)
    pair = generator.generateKeyPair()

    def sign(data: bytes) -> bytes:
        signature = jvm.java.security.Signature.getInstance("SHA256withECDSA")
        signature.initSign(pair.getPrivate())
        signature.update(bytearray(data))
        return bytes(signature.sign())

    def encoded(key: Any, spec: str) -> bytes:  # the key classes themselves are inaccessible by reflection
        wanted = jvm.java.lang.Class.forName(f"java.security.spec.{spec}")
        return bytes(jvm.java.security.KeyFactory.getInstance("EC").getKeySpec(key, wanted).getEncoded())

    to_be_signed = _to_be_signed(encoded(pair.getPublic(), "X509EncodedKeySpec"))
    certificate = _sequence(to_be_signed, _sequence(_ECDSA_WITH_SHA256), _der(0x03, b"\0" + sign(to_be_signed)))
    return Identity(certificate, encoded(pair.getPrivate(), "PKCS8EncodedKeySpec"))


@lru_cache(maxsize=4)
def _context(identity: Identity, protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.check_hostname = False  # exactly one certificate is accepted
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0  # unrequested data mean the end of a connection
    context.load_verify_locations(cadata=identity.certificate)
    with tempfile.TemporaryDirectory(prefix="penstock-tls-") as folder:  # Python loads keys from files only
        path = Path(folder) / "identity.pem"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(_pem("PRIVATE KEY", identity.key) + _pem("CERTIFICATE", identity.certificate))
        context.load_cert_chain(path)
    return context


def _pem(label: str, data: bytes) -> str:
    return f"-----BEGIN {label}-----\n{base64.encodebytes(data).decode()}-----END {label}-----\n"


def _to_be_signed(public_key: bytes) -> bytes:
    name = _sequence(_der(0x31, _sequence(_COMMON_NAME, _der(0x0C, b"penstock"))))
    # One day ago, because clocks differ.
    begin = (datetime.now(timezone.utc) - timedelta(days=1)).strftime("%Y%m%d%H%M%SZ").encode()
    version, serial = _der(0xA0, _der(0x02, b"\2")), _der(0x02, b"\1" + secrets.token_bytes(15))
    validity = _sequence(_der(0x17, begin[2:]), _der(0x18, _NEVER))
    return _sequence(version, serial, _sequence(_ECDSA_WITH_SHA256), name, validity, name, public_key)


def _sequence(*parts: bytes) -> bytes:
    return _der(0x30, b"".join(parts))


def _der(tag: int, content: bytes) -> bytes:
    """Encode an ASN.1 value: tag, length, content.

    >>> _der(0x04, b"ab").hex(), _der(0x04, bytes(200))[:3].hex()
    ('04026162', '0481c8')
    """
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content
