"""The certificate under which the agent serves logs: signed by itself, made anew at each start.

An API server takes it unless it was told an authority for kubelets (`--kubelet-certificate-authority`); for such a cluster
the files come from outside (`--tls-cert-file`, `--tls-private-key-file`). It proves nothing about the Mac, and nothing rests
on it: what is served is what the caller's own certificate or token allows.
"""

import ipaddress
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from paddock.node.files import Files

__all__ = ["self_signed"]

_LIFE = timedelta(days=365)


async def self_signed(files: Files, folder: Path, node_name: str, address: str, now: datetime) -> tuple[Path, Path]:
    """Certificate and key, written where only the agent's user reads them."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node_name}")])
    names: list[x509.GeneralName] = [x509.DNSName(node_name)]
    if address:
        names.append(x509.IPAddress(ipaddress.ip_address(address)))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _LIFE)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    certificate, private = folder / "logs.crt", folder / "logs.key"
    await files.write(private, pem)
    await files.write(certificate, made.public_bytes(serialization.Encoding.PEM))
    return certificate, private
