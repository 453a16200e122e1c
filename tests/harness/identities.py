"""Certificates as threads and driver show each other, made with the openssl command instead of the driver's JVM."""

from __future__ import annotations

import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

from penstock.spark.identity import Identity


@lru_cache(maxsize=2)
def openssl_identity(name: str = "penstock") -> Identity:
    with tempfile.TemporaryDirectory() as folder:
        command = (
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -outform DER -out cert.der "
            f"-days 2 -subj /CN={name} && openssl pkcs8 -topk8 -nocrypt -in key.pem -outform DER -out key.der"
        )
        subprocess.run(command, shell=True, cwd=folder, check=True, capture_output=True)
        return Identity((Path(folder) / "cert.der").read_bytes(), (Path(folder) / "key.der").read_bytes())
