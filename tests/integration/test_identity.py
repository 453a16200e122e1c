"""The certificate that threads and driver show each other, made by the driver's JVM."""

from __future__ import annotations

import pickle
import socket
import ssl
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.spark.identity import identity_for, make_identity


def test_should_make_a_certificate_that_only_its_application_takes(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    ours, other = make_identity(spark.sparkContext), make_identity(spark.sparkContext)
    assert identity_for(spark.sparkContext) is None  # one machine: nothing crosses a network
    assert ours != other
    assert repr(ours.key) not in repr(ours)
    (tmp_path / "ours.der").write_bytes(ours.certificate)
    shown = subprocess.run(
        ["openssl", "x509", "-inform", "DER", "-in", "ours.der", "-noout", "-text"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert "prime256v1" in shown
    assert "9999" in shown

    def meet(server: Any, client: Any) -> bytes:
        accepted, connected = socket.socketpair()
        serving = server.server_side(accepted)

        def serve() -> None:
            with serving:
                try:
                    server.greet(serving, 20)
                    serving.sendall(b"hello")
                except OSError:
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with client.client_side(connected) as asking:
                client.greet(asking, 20)
                return bytes(asking.recv(5))
        finally:
            thread.join()

    assert meet(ours, pickle.loads(pickle.dumps(ours))) == b"hello"
    for server, client in ((ours, other), (other, ours)):
        with pytest.raises(ssl.SSLError, match="certificate"):
            meet(server, client)
    assert not list((tmp_path / "temporary").iterdir())  # keys are in files only while they are loaded
