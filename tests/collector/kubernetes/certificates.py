"""Certificates of an authority of the tests' own, made by openssl."""

import subprocess
from pathlib import Path
from typing import NamedTuple


class Certificates(NamedTuple):
    """Files: the authority's certificate, and certificate and key of both sides."""

    ca: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path


def make_certificates(folder, server_names):
    """Return new certificates below *folder*; the server's is for *server_names*, as ``DNS:a,IP:b``."""
    ca, ca_key = folder / "ca.crt", folder / "ca.key"
    _openssl(
        "req", "-x509", "-newkey", "ec", *CURVE, "-keyout", ca_key, "-out", ca, "-subj", "/CN=ca", *PLAIN
    )
    made = []
    for name, extension in (
        ("server", f"subjectAltName={server_names}"),
        ("client", "keyUsage=digitalSignature"),
    ):
        key, request, certificate = (folder / f"{name}.{end}" for end in ("key", "csr", "crt"))
        _openssl(
            "req", "-newkey", "ec", *CURVE, "-keyout", key, "-out", request, "-subj", f"/CN={name}", *PLAIN
        )
        (folder / "extensions").write_text(extension)
        signed = ("-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-days", "2")
        _openssl(
            "x509", "-req", "-in", request, "-out", certificate, *signed, "-extfile", folder / "extensions"
        )
        made += [certificate, key]
    return Certificates(ca, *made)


CURVE = ("-pkeyopt", "ec_paramgen_curve:prime256v1")
PLAIN = ("-nodes", "-days", "2")


def _openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
